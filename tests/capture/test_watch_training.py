"""Watching a model that trains."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.capture.watching import first_output, ids_of
from torch import Tensor

from heedmap.capture.watch import watch


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt-oss"])
def test_gradients_are_those_of_the_models_own_implementation_to_the_last_bit(family, name):
    ids = ids_of()

    def gradients(watched: bool) -> list[Tensor]:
        model = family(name).train()
        torch.manual_seed(3)
        if watched:
            with watch(model) as seen:
                first_output(model(input_ids=ids)).square().mean().backward()
            assert [call.layer for call in seen.calls] == [0, 1]
        else:
            first_output(model(input_ids=ids)).square().mean().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    for with_, without in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(with_, without)


def test_weights_in_training_are_measured_before_dropout_and_the_formula_says_so(family):
    model, ids = family("bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0).train(), ids_of()
    with watch(model) as seen:
        model(input_ids=ids)
    assert seen.calls[0].formula.dropout == 0.5
    np.testing.assert_allclose(seen.calls[0].measurements["row_mass"], 1, atol=1e-5)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_counts_a_pass_once(family, reentrant):
    model, ids = family("llama").train(), ids_of()
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    with watch(model) as seen:
        model(input_ids=ids, use_cache=False).logits.square().mean().backward()
        model(input_ids=ids, use_cache=False).logits.square().mean().backward()
    assert [(call.layer, call.forward, call.part) for call in seen.calls] == [
        (0, 0, "self"),
        (1, 0, "self"),
        (0, 1, "self"),
        (1, 1, "self"),
    ]
