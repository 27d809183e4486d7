"""The scale on the heads of a model."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from heedmap import masks
from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import InputError
from heedmap.experiments.scaling_heads import claim, measure_heads
from heedmap.experiments.spreads import score_spreads

Build = Callable[..., PreTrainedModel]


def test_spreads_are_those_of_the_dense_scores_over_allowed_pairs() -> None:
    query, key = torch.randn(1, 4, 7, 5), torch.randn(1, 2, 7, 5)
    found = score_spreads(AttentionInputs(query, key, mask=masks.causal()))
    scores = (query.double() @ key.double().repeat_interleave(2, 1).transpose(2, 3))[0].numpy()
    allowed = np.tril(np.ones((7, 7), dtype=bool))
    for head in range(4):
        assert found.overall[head] == pytest.approx(scores[head][allowed].std())
        inner = [((row[keep] - row[keep].mean()) ** 2) for row, keep in zip(scores[head], allowed, strict=True)]
        assert found.within_row[head] == pytest.approx(math.sqrt(np.concatenate(inner).mean()))


def test_entropy_of_a_head_is_that_of_eager_weights(tiny_model: Build) -> None:
    model = tiny_model("llama", attn_implementation="eager")
    inputs = {"input_ids": torch.randint(3, 100, (1, 12))}
    with torch.no_grad():
        weights = model(**inputs, output_attentions=True).attentions
    heads = measure_heads(model, inputs, temperatures=[1.0, 1e6])
    assert len(heads) == 8
    for head in heads:
        row = weights[head.layer][0, head.head].double()
        assert head.as_is.entropy == pytest.approx(float(torch.special.entr(row).sum(-1).mean()), abs=1e-5)
        assert head.as_is.largest == pytest.approx(float(row.amax(-1).mean()), abs=1e-5)
        assert head.tempered[0][1].entropy == pytest.approx(head.as_is.entropy, abs=1e-6)
        uniform = np.mean([math.log(keys) for keys in range(1, 13)])
        assert head.tempered[1][1].entropy == pytest.approx(uniform, abs=1e-3)
        assert head.scaled_spread == pytest.approx(head.raw_spread / math.sqrt(head.head_dim))


def test_a_head_of_normal_components_keeps_the_claim_and_others_do_not(tiny_model: Build) -> None:
    heads = measure_heads(tiny_model("gpt2"), {"input_ids": torch.randint(3, 100, (1, 40))})
    found = claim(heads)
    assert found.heads == 8
    assert not found.holds  # weights of variance 0.02² make small components
    assert found.sentence().startswith("No: ")
    assert found.promised == pytest.approx(math.sqrt(8))


def test_the_model_is_as_before(tiny_model: Build) -> None:
    model = tiny_model("bert")
    before = model.config._attn_implementation
    measure_heads(model, {"input_ids": torch.randint(3, 100, (1, 5))})
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e-300, 1e300, math.nan, math.inf])
def test_a_temperature_that_leaves_no_scores_is_refused(tiny_model: Build, temperature: float) -> None:
    with pytest.raises(InputError, match="temperatures from 1e-06 to 1,000,000"):
        measure_heads(tiny_model("bert"), {"input_ids": torch.ones(1, 3, dtype=torch.long)}, [temperature])
