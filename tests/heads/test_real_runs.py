"""Rollout, sinks and distances on runs that `look` wrote of tiny models: windows, sinks, generated text, two texts."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import look
from heedmap.errors import InputError
from heedmap.heads.rollout import rollout
from heedmap.heads.similar import distances
from heedmap.heads.sinks import find_sinks

TEXT = "The trophy did not fit into the brown suitcase because it was too big."


@pytest.fixture(scope="module")
def build() -> Any:
    spec = spec_from_file_location("families", Path(__file__).parents[1] / "capture" / "families.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build


def _weights(run: Any, part: str, count: int) -> np.ndarray:
    """All weights of a part, `[layers, heads, tokens, tokens]`."""
    layers = [info for info in run.layers if info.part == part]
    return np.array([[run.weights(i.layer, head, part=part) for head in i.heads] for i in layers])[..., :count, :count]


def _product(weights: np.ndarray) -> np.ndarray:
    through = np.eye(weights.shape[-1])
    for layer in weights.astype(np.float64):
        mixed = (np.eye(len(through)) + layer.mean(0)) / 2
        through = mixed / mixed.sum(1, keepdims=True) @ through
    return through


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "gemma3", "gpt-oss", "modernbert"])
def test_they_agree_with_the_dense_weights_of_every_kind_of_model(build, name: str, minilm_tokenizer) -> None:
    torch.manual_seed(2)
    run = look(TEXT, build(name, vocab_size=len(minilm_tokenizer)), minilm_tokenizer)
    weights = _weights(run, "self", run.tokens_of().num_rows)
    product = _product(weights)
    for token in (0, 7, len(product) - 1):
        np.testing.assert_allclose(rollout(run, token).contributions, product[token], rtol=0, atol=1e-6)
    flat = weights.reshape(-1, *weights.shape[2:]).astype(np.float64)
    if name != "gpt-oss":  # whose sinks are one more outcome
        mixed = (flat[0] + flat[-1]) / 2
        entropy = [-(w * np.log(np.where(w > 0, w, 1))).sum(-1) for w in (mixed, flat[0], flat[-1])]
        wanted = (entropy[0] - (entropy[1] + entropy[2]) / 2).mean()
        assert distances(run).matrix[0, -1] == pytest.approx(wanted, abs=1e-6)
    seeing = np.array([find_sinks(run).rows[index] for index in range(len(flat))])
    np.testing.assert_allclose(find_sinks(run).weight, flat.sum(1)[:, :4] / seeing, rtol=0, atol=1e-6)


def test_generated_text_has_rows_for_all_but_its_last_token(build, minilm_tokenizer) -> None:
    torch.manual_seed(2)
    model = build("llama", vocab_size=len(minilm_tokenizer))
    run = look(TEXT, model, minilm_tokenizer, generate=5)
    read = run.tokens_of().num_rows - 1
    product = _product(_weights(run, "self", read))
    np.testing.assert_allclose(rollout(run, read - 1).contributions, product[-1], rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="the last token of a generated text has read nothing yet"):
        rollout(run, -1)
    words = run.words_of()
    found = rollout(run, read - 1).by_word(words.of_token, words.table.column("text").to_pylist())
    assert found.contributions.sum() == pytest.approx(1)


def test_of_an_encoder_decoder_the_encoder_is_told_by_name(build, minilm_tokenizer) -> None:
    torch.manual_seed(2)
    model = build("bart", vocab_size=len(minilm_tokenizer))
    run = look(TEXT, model, minilm_tokenizer, target="It was too big.")
    with pytest.raises(InputError, match="one part in which a text attends to itself, got encoder, decoder"):
        rollout(run, 3)
    with pytest.raises(InputError, match="whose tokens read another text too"):
        rollout(run, 3, part="decoder")
    assert find_sinks(run, part="decoder").labels[0] != find_sinks(run, part="encoder").labels[0]
    assert distances(run, part="decoder").rows < distances(run, part="encoder").rows
