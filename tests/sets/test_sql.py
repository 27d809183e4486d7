"""Questions in SQL, those of the documentation among them."""

from __future__ import annotations

import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from heedmap.errors import InputError, UnsupportedError
from heedmap.sets.reader import TextSet, open_set
from heedmap.sets.sql import VIEWS, asking

DOCUMENT = Path(__file__).parents[2] / "docs" / "sets.md"
EXAMPLES = re.findall(r"```sql\n(.*?)\n```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)


def ask(found: TextSet, question: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """All of an answer at once."""
    with asking(found, question) as (columns, rows):
        return columns, list(rows)


def test_there_are_ten_worked_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("question", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_has_an_answer(made_set, question: str) -> None:
    columns, rows = ask(made_set(), question)
    assert columns
    none_holds = "FROM types WHERE holds" in question and not any(
        row["holds"] for row in made_set().table("types").to_pylist()
    )
    assert rows or none_holds
    assert all(cell is not None for row in rows for cell in row)


def test_answers_are_those_of_the_tables(made_set) -> None:
    found = made_set()
    _, rows = ask(found, "SELECT layer, head, avg(entropy) FROM heads GROUP BY ALL ORDER BY ALL")
    means = [row["mean"] for row in found.table("means").to_pylist() if row["statistic"] == "entropy"]
    assert [row[2] for row in rows] == pytest.approx(means, abs=1e-6)
    assert ask(found, "SELECT texts, refused, heads FROM about")[1] == [(22, 2, 8)]
    assert ask(found, "SELECT count(*) FROM runs JOIN texts USING (text)")[1] == [(1,)]


def test_every_view_is_documented_and_opens_wherever_the_set_lies(copied: Path) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for view in VIEWS:
        assert f"`{view}`" in text
        assert ask(open_set(copied), f"SELECT count(*) FROM {view}")[1][0][0] > 0


@pytest.mark.parametrize("question", ["SELEC 1", "SELECT * FROM nowhere", "SELECT 1 / 'a'", "", ";"])
def test_what_is_no_question_is_one_line(made_set, question: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(made_set(), question)
    assert "\n" not in str(caught.value)


def test_without_duckdb_the_way_out_is_named(made_set, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UnsupportedError, match=r'pip install "heedmap\[sql\]"'):
        ask(made_set(), "SELECT 1")


def test_a_long_answer_is_fetched_as_it_is_taken(made_set) -> None:
    tracemalloc.start()
    try:
        with asking(made_set(), "SELECT range AS number, repeat('x', 100) AS text FROM range(300000)") as (_, rows):
            assert sum(number for number, _ in rows) == 300_000 * 299_999 // 2
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
