"""What can be asked of a watch, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.capture.watching import first_output, ids_of, padded_inputs

from heedmap.capture.watch import watch
from heedmap.errors import InputError, UnsupportedError


@pytest.mark.parametrize("name", ["llama", "gemma2", "mistral", "t5-encoder"])
def test_only_the_layers_and_heads_asked_for_are_measured_and_outputs_stay(family, name):
    model, inputs = family(name), padded_inputs(ids_of(), "right")
    with torch.no_grad():
        with watch(model) as every:
            expected = first_output(model(**inputs))
        with watch(model, layers=[1], heads=[3, 0]) as some:
            output = first_output(model(**inputs))
        with watch(model, heads=["0.2", (1, 1)]) as pairs:
            model(**inputs)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
    assert [(call.layer, call.heads) for call in some.calls] == [(1, [0, 3])]
    assert [(call.layer, call.heads) for call in pairs.calls] == [(0, [2]), (1, [1])]
    for statistic in ("entropy", "received"):
        np.testing.assert_allclose(
            some.calls[0].measurements[statistic], every.calls[1].measurements[statistic][:, [0, 3]], atol=1e-5
        )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"layers": [7]}, r"layers with attention \(0-1\), got layer 7"),
        ({"layers": [-1]}, "layer numbers from 0, got -1"),
        ({"layers": []}, "at least one layer"),
        ({"heads": [9]}, "heads 0 to 3 in layer 0, got head 9"),
        ({"heads": ["last"]}, "head numbers from 0, got 'last'"),
        ({"layers": [0], "heads": ["1.2"]}, r"heads of the layers asked for \(0\), got a head of layer 1"),
        ({"statistics": ["entropi"]}, "entropi"),
    ],
)
def test_what_a_model_does_not_have_is_a_clear_error(family, asked, message):
    model = family("bert")
    with pytest.raises(InputError, match=message), torch.no_grad(), watch(model, **asked):
        model(input_ids=ids_of())
    assert model.config._attn_implementation == "sdpa"


def test_seen_call_asks_for_a_part_where_there_are_several(family):
    model = family("bart")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids_of())
    with pytest.raises(InputError, match="3 calls in encoder, decoder, cross"):
        seen.call(0)
    assert seen.call(0, "cross").part == "cross"


def test_a_model_with_attention_code_of_its_own_is_refused_by_name(family):
    model = family("falcon")
    with pytest.raises(UnsupportedError, match="FalconModel"), watch(model):
        model(input_ids=ids_of())
    assert model.config._attn_implementation == "sdpa"


def test_a_model_that_did_not_run_is_named(family):
    with (
        pytest.raises(UnsupportedError, match="BertModel to run inside watch, got no call of it; call the"),
        watch(family("bert")),
    ):
        pass


@pytest.mark.parametrize(("name", "asks"), [("doge", "Doge, which asks"), ("deepseek-v3.2", "a slice of the mask")])
def test_a_model_that_works_on_its_mask_is_refused_and_set_back(family, name, asks):
    model = family(name)
    before = model.config._attn_implementation
    with pytest.raises(UnsupportedError, match=asks), torch.no_grad(), watch(model):
        model(input_ids=ids_of())
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("argument", ["indices", "block_indices"])
def test_an_argument_that_changes_the_formula_is_refused_by_name(family, argument):
    model = family("llama")
    with pytest.raises(UnsupportedError, match=f"{argument} .* LlamaAttention"), torch.no_grad(), watch(model):
        model(input_ids=ids_of(), **{argument: torch.zeros(1)})
    assert model.config._attn_implementation == "sdpa"


def test_an_argument_that_no_formula_reads_is_let_through(family):
    model = family("llama")
    with torch.no_grad(), watch(model) as seen:
        model(input_ids=ids_of(), anything=torch.zeros(1))
    assert len(seen.calls) == 2


@pytest.mark.parametrize("statistics", [3, None, 1.5])
def test_statistics_that_are_no_names_are_one_line(tiny_model: Any, statistics: Any) -> None:
    expected = r"\[statistics\] expected .*a name or a list of names"
    with pytest.raises(InputError, match=expected), watch(tiny_model("gpt2"), statistics=statistics):
        pass
