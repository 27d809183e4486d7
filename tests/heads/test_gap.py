from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heedmap.errors import InputError, StorageError
from heedmap.heads.coreference_findings import gap_findings
from heedmap.heads.findings import About
from heedmap.heads.gap import HEADER, Counts, Example, answers_of, is_gap, read_examples

TEXT = "Zoë met Ann Lee and she smiled at her."


def row(**changes: str) -> str:
    cells = {"ID": "v-1", "Text": TEXT, "Pronoun": "she", "Pronoun-offset": "20", "A": "Zoë", "A-offset": "0",
             "A-coref": "TRUE", "B": "Ann Lee", "B-offset": "8", "B-coref": "FALSE", "URL": "x"}  # fmt: skip
    return "\t".join((cells | changes)[name] for name in HEADER)


def write(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "gap.tsv"
    path.write_text("\n".join(["\t".join(HEADER), *rows]) + "\n", encoding="utf-8")
    return path


def test_offsets_count_characters(tmp_path: Path) -> None:
    path = write(tmp_path, row(), row(Pronoun="her", **{"Pronoun-offset": "34", "B-coref": "true"}))
    assert is_gap(path)
    first, second = read_examples(path)
    assert [TEXT[slice(*span)] for span in (first.pronoun, first.a, first.b)] == ["she", "Zoë", "Ann Lee"]
    assert (first.a_meant, first.b_meant, first.gender) == (True, False, "feminine")
    assert second.b_meant
    assert first.nearest == (False, True)
    assert len(list(read_examples(path, 1))) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb", "11 columns parted by tabs, got 2 in line 2"),
        (row(**{"A-offset": "1"}), "'Zoë' at character 1 .* offsets count characters, not bytes"),
        (row(**{"A-offset": "-3"}), "got offset '-3'"),
        (row(**{"A-offset": "x"}), "got offset 'x'"),
        (row(**{"A-coref": "maybe"}), "TRUE or FALSE, got 'maybe'"),
        (row(Pronoun="Zoë", **{"Pronoun-offset": "0"}), "expected a pronoun among he, him, .* got 'Zoë'"),
        (row(A=""), "at character 0"),
    ],
)
def test_lines_of_another_form_are_refused(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        list(read_examples(write(tmp_path, line)))


def test_other_files_are_no_gap(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ID\tText\n")
    (tmp_path / "b").write_bytes(b"\xff\x00")
    assert not is_gap(tmp_path / "a")
    assert not is_gap(tmp_path / "b")
    with pytest.raises(StorageError):
        is_gap(tmp_path / "c")


def example(a: bool, b: bool, gender: str, nearest_a: bool = True) -> Example:
    names = ((10, 13), (0, 3)) if nearest_a else ((0, 3), (10, 13))
    return Example("x", "", (20, 22), *names, a, b, gender)


EXAMPLES = [
    example(True, False, "masculine"), example(False, True, "masculine"), example(False, False, "masculine"),
    example(True, False, "feminine"), example(True, False, "feminine", nearest_a=False),
]  # fmt: skip


def test_f1_is_that_of_all_answers() -> None:
    always_a = np.tile(np.array([True, False]), (5, 1, 1))
    counts = Counts.of(always_a, EXAMPLES)
    every = np.ones(5, dtype=bool)
    # yes five times, right three times, four names meant: precision 3/5, recall 3/4
    assert counts.precision(every) == pytest.approx([3 / 5])
    assert counts.recall(every) == pytest.approx([3 / 4])
    assert counts.f1(every) == pytest.approx([2 * (3 / 5) * (3 / 4) / (3 / 5 + 3 / 4)])
    masculine = np.array([one.gender == "masculine" for one in EXAMPLES])
    assert counts.f1(masculine) == pytest.approx([2 * 1 / (2 * 1 + 2 + 1)])
    assert counts.f1(~masculine) == pytest.approx([1.0])
    silent = Counts.of(np.zeros((5, 1, 2), dtype=bool), EXAMPLES)
    assert silent.f1(every) == pytest.approx([0.0])
    assert np.isnan(silent.precision(every)).all()


def test_the_larger_weight_answers_and_no_weight_says_no() -> None:
    weights = np.array([[0.2, 0.1], [0.1, 0.2], [0.0, 0.0], [0.3, 0.3]])
    assert answers_of(weights).tolist() == [[True, False], [False, True], [False, False], [True, False]]


def test_the_head_is_chosen_on_even_and_scored_on_odd_examples() -> None:
    examples = EXAMPLES * 4
    gold = np.array([(one.a_meant, one.b_meant) for one in examples])
    answers = np.zeros((20, 2, 2), dtype=bool)
    answers[::2, 0] = gold[::2]  # head 0 knows the even ones, head 1 the odd ones
    answers[1::2, 1] = gold[1::2]
    heads = [("self", 0, 0), ("self", 3, 1)]
    table, every = gap_findings(examples, answers, heads, About("m", None, "d", 20, 0, "c"), 0)
    best, nearest = table.rows
    assert best["answers_by"] == "head 0.0"
    assert (best["f1_even"], best["f1"]) == (1.0, 0.0)
    assert nearest["answers_by"] == "nearest name"
    odd = np.arange(20) % 2 == 1
    own = Counts.of(np.array([one.nearest for one in examples])[:, None], examples)
    assert nearest["f1"] == pytest.approx(float(own.f1(odd)[0]))
    assert nearest["bias"] == pytest.approx(nearest["f1_feminine"] / nearest["f1_masculine"])
    assert [row["f1_odd"] for row in every] == [0.0, 1.0]
