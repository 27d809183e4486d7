"""What changed between two sets, text by text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.made_sets import json_lines, model_folder, texts

from heedmap.errors import InputError
from heedmap.sets.columns import column
from heedmap.sets.compare import compare
from heedmap.textsets.scan import scan


def test_a_set_does_not_differ_from_itself(made_set) -> None:
    found = compare(made_set(), made_set())
    assert found.texts == 22
    assert {change.change for change in found.changes} == {0.0}
    assert not any(change.told_apart for change in found.changes)


def test_changes_are_paired_by_text_and_ranked(made_set) -> None:
    before, after = made_set(3), made_set(4)
    found = compare(before, after, ["entropy", "max_weight"])
    assert len(found.changes) == 2 * 8
    assert found.by_chance == pytest.approx(0.8)
    values = [column(one.files("heads"), "entropy", 8)[0].astype(float) for one in (before, after)]
    for change in found.changes:
        if change.statistic == "entropy":
            place = before.heads.index((change.part, change.layer, change.head))
            steps = values[1][place] - values[0][place]
            assert change.change == pytest.approx(steps.mean())
            assert change.high - change.change == pytest.approx(2.0796 * steps.std(ddof=1) / np.sqrt(22), rel=1e-4)
    apart = [change.told_apart for change in found.changes]
    assert apart == sorted(apart, reverse=True)
    effects = [abs(change.effect) for change in found.changes if change.told_apart]
    assert len(effects) >= 4
    assert effects == sorted(effects, reverse=True)


def test_texts_are_matched_by_what_they_say(made_set, tmp_path: Path) -> None:
    given = [*texts(11, 14)[::-1], "a text of its own"]
    model = model_folder(tmp_path / "model", "bert", 3)
    other = scan(json_lines(tmp_path / "texts.jsonl", given), model, out=tmp_path / "set", layers=1)
    found = compare(made_set(), other)
    assert found.texts == 11
    assert max(abs(change.change) for change in found.changes) < 1e-5
    assert {change.layer for change in found.changes} == {1}
    assert found.only == (
        "11 of the 22 texts of the first set alone",
        "1 of the 12 texts of the second set alone",
        "4 heads of the first set alone: 0.0, 0.1, 0.2, 0.3",
    )


def test_sets_with_nothing_in_common_are_refused(made_set, tmp_path: Path) -> None:
    model = model_folder(tmp_path / "model", "bert", 3)
    other = scan(json_lines(tmp_path / "texts.jsonl", ["another"]), model, out=tmp_path / "set")
    with pytest.raises(InputError, match="none in common; scan the same texts"):
        compare(made_set(), other)
    with pytest.raises(InputError, match="got 'induction'"):
        compare(made_set(), made_set(), ["induction"])
