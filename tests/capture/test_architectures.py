"""Every attention family, with random weights: watched like its own eager attention, or refused by name."""

from __future__ import annotations

import warnings
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from heedmap.capture.interface import InterfaceCall
from heedmap.capture.layers import sites_of
from heedmap.capture.selection import Selection
from heedmap.capture.session import Place, Session
from heedmap.capture.survey import TESTED, Architecture, markdown, survey
from heedmap.capture.watch import opened, watch
from heedmap.errors import UnsupportedError

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
PINNED = "5.24.0"
"""The version of transformers that the page is of."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Families that the installed transformers has, one test each."""
    listed = run_path(str(Path(__file__).with_name("families.py")))
    there = [name for name, (kind, _, _) in listed["FAMILIES"].items() if kind in dir(transformers)]
    for argument in {"watched", "refused"} & set(metafunc.fixturenames):
        names = [name for name in there if (name in listed["REFUSED"]) == (argument == "refused")]
        metafunc.parametrize(argument, names)


@torch.no_grad()
def _eager(model: Any, inputs: dict[str, Any]) -> tuple[Any, list[tuple[str, int, Tensor | None]]]:
    """What the model computes with its own eager attention, and the dense weights of every call."""
    calls: list[tuple[str, int, Tensor | None]] = []

    def compute(call: InterfaceCall, session: Session, place: Place) -> Tensor:
        output, weights = call.original_with_weights("eager")
        calls.append((place.part, place.layer, weights))
        return output

    with opened(Session(model, Selection(), (), False, lambda call: None, compute=compute)):
        return model(**inputs), calls


def _floats(output: Any) -> list[Tensor]:
    """The first results of a model: logits or hidden states."""
    return [value for value in output.to_tuple() if isinstance(value, Tensor) and value.is_floating_point()][:1]


def test_a_family_is_watched_as_its_own_eager_attention(families, watched):
    model = families.build(watched)
    inputs = families.inputs_of(watched, model)
    if transformers.__version__ != PINNED and not sites_of(model):  # earlier versions: attention code of its own
        with pytest.raises(UnsupportedError, match=type(model).__name__), watch(model):
            model(**inputs)
        return
    eager, dense = _eager(model, inputs)
    with torch.no_grad():
        own = model(**inputs)
        with watch(model) as seen:
            output = model(**inputs)
    assert [(call.part, call.layer) for call in seen.calls] == [(part, layer) for part, layer, _ in dense]
    for call, (_, _, weights) in zip(seen.calls, dense, strict=True):
        found = call.measurements
        if weights is None:  # eager functions of earlier versions that hand out no weights
            continue
        rows = np.broadcast_to(found["row_valid"][:, None], found["argmax"].shape) & (found["argmax"] >= 0)
        table, close = weights.double().numpy(), {"rtol": 0, "atol": 2e-5}
        np.testing.assert_allclose(found["row_mass"][rows], table.sum(-1)[rows], **close)
        np.testing.assert_allclose(found["max_weight"][rows], table.max(-1)[rows], **close)
        np.testing.assert_allclose(found["concentration"][rows], (table**2).sum(-1)[rows], **close)
        received = np.where(rows[..., None], table, 0).sum(-2)[..., : found["received"].shape[-1]]
        np.testing.assert_allclose(found["received"], received, rtol=0, atol=1e-4)
    real = inputs.get("attention_mask") if "input_ids" in inputs and "decoder_input_ids" not in inputs else None
    for ours, theirs, plain in zip(_floats(output), _floats(eager), _floats(own), strict=True):
        apart, allowed = (ours - theirs).abs(), (plain - theirs).abs()
        if real is not None and apart.shape[:2] == real.shape:
            apart, allowed = apart[real.bool()], allowed[real.bool()]
        assert float(apart.max()) <= max(2 * float(allowed.max()), 5e-6)


def test_a_family_is_refused_by_name_and_left_as_it_was(families, refused):
    model = families.build(refused)
    before = model.config._attn_implementation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UnsupportedError) as error, torch.no_grad(), watch(model):
            model(**families.inputs_of(refused, model))
    assert type(model).__name__.removesuffix("Model") in str(error.value)
    assert model.config._attn_implementation == before


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(transformers.__version__ != PINNED, reason=f"the page is of transformers {PINNED}")
def test_tested_rows_of_the_page_are_those_that_are_tested_and_say_what_came_out(families):
    modules = {
        name: getattr(transformers, kind).__module__.split(".")[2]
        for name, (_, kind, _) in families.FAMILIES.items()
        if kind in dir(transformers)
    }
    assert sorted(set(modules.values())) == sorted(TESTED)
    found = {one.name: one for one in survey()}
    for name, module in modules.items():
        expected = ("refused", "no attention") if name in families.REFUSED else ("yes", "in part", "as its parts")
        assert found[module].watch in expected, name


@pytest.mark.skipif(transformers.__version__ != PINNED, reason=f"the page is of transformers {PINNED}")
def test_the_page_is_what_the_source_says():
    assert PAGE.read_text(encoding="utf-8") == markdown(), (
        "write it again: python -m heedmap.capture.survey > docs/architectures.md"
    )


@pytest.mark.parametrize(
    ("source", "watch_", "why"),
    [
        ("class A:\n def f(s): ALL_ATTENTION_FUNCTIONS[1](s)", "yes", ""),
        (
            "class A:\n def f(s): ALL_ATTENTION_FUNCTIONS[1](s, indices=i)",
            "refused",
            "A attends to keys chosen by index",
        ),
        (
            "class A:\n def f(s, attention_mask): ALL_ATTENTION_FUNCTIONS[1](attention_mask[:, 0])",
            "refused",
            "A works on its mask itself",
        ),
        ("class MyAttention:\n def f(s): softmax(s)", "refused", "MyAttention, with attention code of its own"),
        (
            "class A:\n def f(s): ALL_ATTENTION_FUNCTIONS[1](s)\nclass MyAttention:\n def f(s): softmax(s)",
            "in part",
            "not seen: MyAttention, with attention code of its own",
        ),
        ("class A:\n def f(s): AutoModel.from_config(s)", "as its parts", "built from other architectures: see those"),
    ],
)
def test_source_is_read_as_it_is_meant(tmp_path, source, watch_, why):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "modeling_bert.py").write_text(source)
    (only,) = survey(tmp_path)
    assert isinstance(only, Architecture)
    assert (only.watch, only.why) == (watch_, why)
