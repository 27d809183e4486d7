from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.capture import reading, selfcheck
from heedmap.capture.original import eager_function
from heedmap.capture.selection import Selection
from heedmap.capture.selfcheck import self_check

KEYS = {
    "part",
    "layer",
    "head",
    "rows",
    "keys",
    "max_abs_error",
    "budget",
    "passed",
    "path_difference",
    "loaded_difference",
    "loaded_agrees",
    "output_finite",
}


def _check(model: Any, length: int = 20, windows: tuple[int, ...] = (), **asked: Any) -> dict[str, Any] | None:
    ids = torch.randint(3, 100, (1, length))
    body = model.get_encoder() if model.config.is_encoder_decoder else model.base_model

    def forward(count: int) -> torch.Tensor:
        return body(input_ids=ids[:, :count])[0]

    return self_check(model, forward, length, Selection.of(asked.get("layers"), asked.get("heads")), list(windows))


@pytest.mark.parametrize(
    "name",
    [
        "bert",
        "modernbert",
        "gpt2",
        "llama",
        "mistral",
        "gemma2",
        "gemma3",
        "gpt-oss",
        "llama4",
        "diffllama",
        "t5-encoder",
    ],
)
def test_weights_agree_with_the_models_own_eager_attention(family, name):
    model = family(name)
    before = model.config._attn_implementation
    checked = _check(model)
    assert checked is not None
    assert set(checked) == KEYS
    assert checked["passed"]
    assert checked["max_abs_error"] <= 2e-6
    assert checked["path_difference"] == 0
    assert checked["loaded_agrees"]
    assert (checked["rows"], checked["keys"]) == (20, 20)
    assert model.config._attn_implementation == before


def test_bf16_models_are_given_what_their_rounding_costs(family):
    checked = _check(family("llama").to(torch.bfloat16))
    assert checked is not None
    assert checked["passed"]
    assert 1e-5 < checked["max_abs_error"] <= checked["budget"] < 0.1


def test_a_term_of_the_formula_that_we_would_miss_fails_the_check(family, monkeypatch):
    whole = reading.Reading.inputs
    model = family("gemma2")

    def without_softcap(self: Any, *args: Any, **settings: Any) -> Any:
        return whole(replace(self, softcap=None), *args, **settings)

    monkeypatch.setattr(reading.Reading, "inputs", without_softcap)
    checked = _check(model)
    assert checked is not None
    assert not checked["passed"]
    assert checked["max_abs_error"] > 100 * checked["budget"]


def test_a_model_that_takes_another_path_under_our_name_fails_the_check(family):
    model = family("llama")
    layer = model.model.layers[0]
    forward = layer.forward

    def other_path(hidden_states: torch.Tensor, **settings: Any) -> Any:
        shift = 0.1 if model.config._attn_implementation == "heedmap" else 0.0
        return forward(hidden_states + shift, **settings)

    layer.forward = other_path
    checked = _check(model)
    assert checked is not None
    assert not checked["passed"]
    assert checked["path_difference"] > 1e-3


def test_nan_is_the_worst_error_of_all(family, monkeypatch):
    weights = selfcheck._weights

    def spoiled(inputs: Any, measured: Any, index: int) -> Any:
        ours, budget = weights(inputs, measured, index)
        return (np.full_like(ours, np.nan) if index == 2 else ours), budget

    monkeypatch.setattr(selfcheck, "_weights", spoiled)
    checked = _check(family("bert"))
    assert checked is not None
    assert not checked["passed"]
    assert (checked["layer"], checked["head"]) == (0, 2)
    assert math.isnan(checked["max_abs_error"])


def test_an_implementation_that_disagrees_with_eager_is_told(family):
    model = family("bert")
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def sloppy(module: Any, query: torch.Tensor, *args: Any, **settings: Any) -> Any:
        return sdpa_attention_forward(module, query * 1.1, *args, **settings)

    AttentionInterface.register("sloppy", sloppy)
    AttentionMaskInterface.register("sloppy", sdpa_mask)
    model.set_attn_implementation("sloppy")
    checked = _check(model)
    assert checked is not None
    assert checked["passed"]
    assert not checked["loaded_agrees"]
    assert checked["loaded_difference"] > 1e-3


@pytest.mark.parametrize(("length", "windows", "crop"), [(20, (), 20), (400, (), 256), (400, (300, 7), 400)])
def test_the_crop_is_longer_than_every_window(family, length, windows, crop):
    checked = _check(family("llama", num_hidden_layers=1), length, windows)
    assert checked is not None
    assert checked["rows"] == crop


def test_only_what_was_measured_is_checked(family):
    checked = _check(family("llama"), layers=[1], heads=[3])
    assert checked is not None
    assert (checked["layer"], checked["head"]) == (1, 3)


def test_a_model_without_an_eager_function_is_not_checked(family, monkeypatch):
    model = family("bert")
    assert eager_function(model.encoder.layer[0].attention.self) is not None
    monkeypatch.setattr(selfcheck, "eager_function", lambda module: None)
    assert _check(model) is None
