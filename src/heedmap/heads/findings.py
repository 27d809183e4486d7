"""A table of what was found, which says what it was found on: model, revision, data, items, seed and command."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from heedmap import __version__
from heedmap.errors import InputError

Kind = Literal["string", "int64", "float64", "bool"]
Cell = str | int | float | bool | None
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int64": (int,),
    "float64": (float, int),
    "bool": (bool,),
}


@dataclass(frozen=True)
class Column:
    """One column: its `name` in files, its `label` for people, how a value is shown.

    `spec` is Python's format specification (`.1%` shows 0.943 as `94.3%`; shares are stored from 0 to 1). A column that
    is not `listed` is in files of data (Parquet, CSV, JSON) and not in tables for people (terminal, LaTeX).
    """

    name: str
    kind: Kind = "float64"
    label: str = ""
    spec: str = ""
    unit: str = ""
    listed: bool = True

    @property
    def title(self) -> str:
        """What stands above the column."""
        return self.label or self.name.replace("_", " ")

    def show(self, value: Cell) -> str:
        """The value as a person reads it; nothing for None and NaN."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return format(value, self.spec)


@dataclass(frozen=True)
class About:
    """What a table was found on. `items` counts what was scored, and is said in words too (`1,953 sentences`).

    `more` is whatever else a reader needs to find the same numbers again (what was left out, and how much), by name.
    """

    model: str
    revision: str | None
    data: str
    items: int
    seed: int | None
    command: str
    item: str = "items"
    more: Mapping[str, str | int | float] = field(default_factory=dict)

    def entries(self) -> dict[str, str]:
        """Name → text, in the order of a page; every table states all of them."""
        return {
            "model": self.model,
            "revision": self.revision or "unknown",
            "data": self.data,
            "items": f"{self.items:,} {self.item}",
            "seed": "none" if self.seed is None else str(self.seed),
            "command": self.command,
            "heedmap": __version__,
            **{name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in self.more.items()},
        }


@dataclass(frozen=True)
class Findings:
    """Rows under named columns, with what they were found on.

    Attributes:
        name: what its files are called, without suffix.
        title: one line above the table.
        columns: in the order of the table.
        rows: one mapping a row, with a value or None for every column; NaN is no value either.
        about: model, revision, data, items, seed, command.
        notes: sentences that belong under the table.

    Raises:
        InputError: two columns of one name, or a row that does not have exactly the columns or has values of another
            type.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Cell]]
    about: About
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise InputError("Findings", expected="columns of different names", got=", ".join(names))
        for index, row in enumerate(self.rows):
            if set(row) != set(names):
                wrong = ", ".join(sorted(set(row) ^ set(names)))
                raise InputError("Findings", expected=f"a value for each column in row {index}", got=f"{wrong} in one")
            for column in self.columns:
                self._check(index, column, row[column.name])

    def _check(self, index: int, column: Column, value: Cell) -> None:
        wanted = _TYPES[column.kind]
        if value is None or (isinstance(value, wanted) and isinstance(value, bool) == (column.kind == "bool")):
            return
        raise InputError(
            "Findings", expected=f"{column.kind} in column {column.name}, row {index}", got=type(value).__name__
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Cell]]:
        return iter(self.rows)

    def column(self, name: str) -> list[Cell]:
        """The values of one column; raises InputError for a name that is none."""
        if name not in [column.name for column in self.columns]:
            raise InputError(
                "Findings", expected=f"a column among {', '.join(c.name for c in self.columns)}", got=repr(name)
            )
        return [row[name] for row in self.rows]

    def shown(self) -> tuple[list[Column], list[list[str]]]:
        """Columns and cells as a person reads them, those that are listed."""
        columns = [column for column in self.columns if column.listed]
        return columns, [[column.show(row[column.name]) for column in columns] for row in self.rows]

    def document(self) -> dict[str, Any]:
        """Plain data for JSON; numbers that are not finite are None."""
        return {
            "table": self.name,
            "title": self.title,
            "about": self.about.entries(),
            "units": {column.name: column.unit for column in self.columns if column.unit},
            "rows": [{column.name: _finite(row[column.name]) for column in self.columns} for row in self.rows],
            "notes": list(self.notes),
        }


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value
