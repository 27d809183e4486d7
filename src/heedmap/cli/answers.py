"""An answer in SQL as a table for a person, or as CSV or JSON for a program."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from rich.cells import cell_len

from heedmap.cli import lesson
from heedmap.cli.wording import printable

Rows = Iterator[tuple[Any, ...]]
_SHOWN = 200
_NARROWEST = 24
"""Letters of a line down to which a column of texts is folded; numbers are never."""
_GAP = 2


def print_json(columns: Sequence[str], rows: Rows) -> None:
    """One JSON document; lists, structures and decimals as such."""
    lesson.write_json({"columns": columns, "rows": [[_plain(cell) for cell in row] for row in rows]})


def print_csv(columns: Sequence[str], rows: Rows) -> None:
    """CSV with a header line; lists and structures as JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_flat(cell) for cell in row] for row in rows)


@dataclass(frozen=True)
class _Column:
    name: str
    cells: list[str]
    numbers: bool

    @property
    def width(self) -> int:
        """Letters that it cannot do without."""
        longest = max(map(cell_len, [self.name, *self.cells]))
        return longest if self.numbers else max(cell_len(self.name), min(longest, _NARROWEST))


def print_table(columns: Sequence[str], rows: Rows) -> None:
    """A table of the first rows; where it is too wide, several below one another whose rows have the same numbers."""
    shown = list(islice(rows, _SHOWN))
    more = sum(1 for _ in rows)
    every = [_column(printable(name), [row[place] for row in shown]) for place, name in enumerate(columns)]
    page = lesson.console()
    bands = _bands(every, page.width)
    for place, band in enumerate(bands):
        if place:
            page.print()
        _print_band(page, band, len(shown))
    if more > 0:
        page.print(f"… and {more:,} more rows; --csv prints all")


def _column(name: str, cells: list[Any]) -> _Column:
    numbers = bool(cells) and all(cell is None or isinstance(cell, int | float | Decimal) for cell in cells)
    return _Column(name, [printable(_shown(cell)) for cell in cells], numbers)


def _bands(columns: list[_Column], width: int) -> list[list[_Column]]:
    """The columns in as many parts as do not fit beside one another; of several, each begins with the rows' numbers."""
    if _width(columns) <= width or len(columns) == 1:
        return [columns]
    count = len(columns[0].cells)
    numbered = _Column("row", [str(row) for row in range(1, count + 1)], numbers=True)
    bands = [[numbered]]
    for column in columns:
        if len(bands[-1]) > 1 and _width([*bands[-1], column]) > width:
            bands.append([numbered])
        bands[-1].append(column)
    return bands


def _width(columns: list[_Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _print_band(page: Any, columns: list[_Column], rows: int) -> None:
    table = lesson.new_table(*(column.name for column in columns))
    for place, column in enumerate(columns):
        table.columns[place].justify = "right" if column.numbers else "left"
        table.columns[place].no_wrap = column.numbers
        table.columns[place].overflow = "fold"  # a word longer than its line loses no letter
        table.columns[place].min_width = column.width
    for row in range(rows):
        table.add_row(*(column.cells[row] for column in columns))
    page.print(table)


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _plain(cell: Any) -> Any:
    match cell:
        case None | bool() | int() | float() | str():
            return cell
        case Decimal():
            return int(cell) if cell == cell.to_integral_value() else float(cell)
        case dict():
            return {str(name): _plain(entry) for name, entry in cell.items()}
        case list() | tuple():
            return [_plain(entry) for entry in cell]
        case _:
            return str(cell)


def _flat(cell: Any) -> Any:
    if isinstance(cell, dict | list | tuple):
        return json.dumps(lesson.finite(_plain(cell)), ensure_ascii=False)
    return cell
