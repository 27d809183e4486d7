from __future__ import annotations

from pathlib import Path

import pytest

from heedmap.statistics.catalogue import RATIOS, STATISTICS
from heedmap.statistics.page import entries, markdown

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), (
        "write it again: heedmap statistics --markdown > docs/statistics.md"
    )


def test_every_statistic_and_ratio_is_listed_once() -> None:
    assert sorted(entry.name for entry in entries()) == sorted([*STATISTICS, *RATIOS])


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_every_entry_says_what_it_is(entry) -> None:
    assert entry.formula
    assert entry.unit
    assert entry.says.endswith((".", "models)."))
    assert "GROUP BY" not in entry.says, "it has no docstring of its own"


def test_columns_are_those_that_a_run_has(minilm, minilm_tokenizer, tmp_path) -> None:
    from heedmap.capture.look import look

    run = look(
        "Well, the cat sat.", minilm, minilm_tokenizer, out=tmp_path / "run", statistics="all", spans={"a": (0, 4)}
    )
    for entry in entries():
        if entry.column == "not kept":
            assert entry.axis == "cell" or entry.name not in run.table(entry.axis).column_names
        elif entry.axis != "cell":
            kind = str(run.table(entry.axis).schema.field(entry.name).type).split("[")[0]
            plain = {"int32": "int32", "float": "float32", "double": "float64"}
            wanted = entry.column.split(", ")[1]
            found = plain.get(kind) or f"list of {plain[kind.split('element: ')[1].rstrip('>')]}"
            assert (entry.name, found) == (entry.name, wanted)
        if entry.over_rows != "none":
            assert entry.name in run.table("head").column_names
