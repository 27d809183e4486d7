from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heedmap.heads.types import TYPES, judge

HEADS = [("self", 0, 0), ("self", 0, 1), ("self", 1, 0)]


def test_a_head_is_of_every_type_whose_bar_it_passes_and_of_none_else() -> None:
    typing = judge(HEADS, {"previous": np.array([0.9, 0.2, 0.5]), "first": np.array([0.7, 0.61, 0.1])})
    assert [head.types for head in typing.heads] == [("previous", "first"), ("first",), ()]
    assert [(head.layer, head.head) for head in typing.none] == [(1, 0)]
    assert [head.values["first"] for head in typing.of_type("first")] == [0.7, 0.61]


def test_only_the_positional_bar_is_reached_by_its_own_value() -> None:
    typing = judge(HEADS, {name: np.full(3, kind.bar) for name, kind in TYPES.items()})
    assert {head.types for head in typing.heads} == {("positional",)}


def test_a_value_without_meaning_makes_no_type_and_is_said() -> None:
    typing = judge(HEADS, {"next": np.full(3, np.nan), "self": np.array([np.nan, 0.6, 0.1])}, {"broad": "too long"})
    assert [head.types for head in typing.heads] == [(), ("self",), ()]
    assert typing.unjudged["next"] == "nothing in this text to judge it by"
    assert typing.unjudged["broad"] == "too long"
    assert typing.unjudged["sink"] == "not measured"
    assert "self" not in typing.unjudged


@pytest.mark.parametrize("kind", TYPES.values(), ids=lambda kind: kind.name)
def test_every_type_names_its_value_and_its_source(kind) -> None:
    assert kind.says
    assert kind.value
    assert "et al." in kind.source or "own" in kind.source


def test_the_page_states_every_type_with_its_bar() -> None:
    page = (Path(__file__).parents[2] / "docs" / "heads.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line.split(" | ") for line in page.splitlines() if line.startswith("| `")}
    assert list(rows) == list(TYPES)
    for name, kind in TYPES.items():
        assert rows[name][3].split()[:2] == [kind.sign, f"{kind.bar:g}"]
