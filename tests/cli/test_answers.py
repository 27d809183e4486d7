"""Answers in SQL lose nothing on the way to a person or a program."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from heedmap.cli import answers

WIDE = [f"statistic_{number}" for number in range(14)]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`printed(print_table, columns, rows, width=80)` → what it printed."""

    def ask(show: Callable[..., None], columns: list[str], rows: list[tuple[Any, ...]], width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        show(columns, iter(rows))
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize("width", [40, 80, 132])
def test_every_column_and_number_of_a_wide_answer_is_there_within_the_width(printed, width: int) -> None:
    rows = [tuple(row + place / 1000 for place in range(1, 15)) for row in range(1, 4)]
    page = printed(answers.print_table, WIDE, rows, width)
    words = page.split()
    assert [word for word in words if word in WIDE] == WIDE
    assert all(f"{cell:.6g}" in words for row in rows for cell in row)
    assert "…" not in page
    assert max(map(len, page.splitlines())) <= width


def test_rows_of_a_wide_answer_are_known_by_their_numbers(printed) -> None:
    page = printed(answers.print_table, WIDE, [(row,) * 14 for row in (71, 72)])
    bands = page.split("\n\n")
    assert len(bands) > 1
    for band in bands:
        lines = [line.split() for line in band.splitlines()]
        assert lines[0][0] == "row"
        assert [line[:2] for line in lines[2:]] == [["1", "71"], ["2", "72"]]


def test_an_answer_that_fits_is_one_table_without_numbers(printed) -> None:
    page = printed(answers.print_table, ["layer", "excerpt"], [(3, "the cat sat on the mat " * 20)])
    assert page.split()[:2] == ["layer", "excerpt"]
    assert "row" not in page.split()
    assert page.count("cat") == 20


def test_a_word_longer_than_its_line_loses_no_letter(printed) -> None:
    page = printed(answers.print_table, ["sha256", "excerpt", "place"], [("0123456789abcdef" * 4, "고양이 " * 30, 7)])
    first = "".join(line.split()[0] for line in page.splitlines()[2:] if not line.startswith(" "))
    assert first == "0123456789abcdef" * 4
    assert page.count("고양이") == 30


def test_no_row_at_all_and_no_more_than_can_be_read(printed) -> None:
    assert printed(answers.print_table, ["text", "path"], []).split()[:2] == ["text", "path"]
    assert printed(answers.print_table, ["n"], [(n,) for n in range(1200)]).endswith(
        "… and 1,000 more rows; --csv prints all\n"
    )


def test_a_column_s_name_commands_no_terminal(printed) -> None:
    assert "\x1b" not in printed(answers.print_table, ["a\x1b[31m", "b"], [("\x1b[2J", 1)])


NESTED = [[1.0, None, 2.5], {"a": 1, "b": [Decimal("0.25")]}, Decimal("0.1"), Decimal(12), float("nan"), True, None]


def test_lists_structures_and_decimals_are_themselves_in_json(printed) -> None:
    columns = list("abcdefg")
    document = json.loads(printed(answers.print_json, columns, [tuple(NESTED)]))
    assert document["columns"] == columns
    assert document["rows"] == [[[1.0, None, 2.5], {"a": 1, "b": [0.25]}, 0.1, 12, None, True, None]]
    assert isinstance(document["rows"][0][3], int)


def test_what_json_has_no_word_for_is_text(printed) -> None:
    day = datetime.date(2020, 1, 2)
    assert json.loads(printed(answers.print_json, ["day", "m"], [(day, {3: day})]))["rows"] == [
        ["2020-01-02", {"3": "2020-01-02"}]
    ]


def test_lists_and_structures_are_json_within_csv(printed) -> None:
    (row,) = csv.DictReader(io.StringIO(printed(answers.print_csv, list("abcdefg"), [tuple(NESTED)])))
    assert json.loads(row["a"]) == [1.0, None, 2.5]
    assert json.loads(row["b"]) == {"a": 1, "b": [0.25]}
    assert (row["c"], row["d"], row["g"]) == ("0.1", "12", "")
