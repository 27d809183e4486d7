"""Findings on the terminal: the table, what it was found on, and the ``--out`` folder of its files."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.summary import printable
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.heads.findings import Findings


def out_folder(out: str | None) -> Path | None:
    """The ``--out`` folder, checked before any work is done; raises ``InputError``."""
    if out is None:
        return None
    path = Path(out)
    above = next(place for place in path.absolute().parents if place.exists())
    taken = path if path.exists() else above
    if not taken.is_dir() or not os.access(taken, os.W_OK | os.X_OK):
        raise InputError(
            "--out",
            expected="a folder to write tables and pictures to",
            got=f"{taken}, which {'may not be written to' if taken.is_dir() else 'is a file'}",
            do="choose another folder",
        )
    return path


def command_line() -> str:
    """The command that is running, as it may be typed again."""
    return shlex.join(["heedmap", *click.get_current_context().meta["heedmap.arguments"]])


def page(findings: Findings, *extra: RenderableType, facts: bool = True) -> Group:
    """Title, table, `extra` lines, notes, and dim lines with what it was found on (but for all tables but the last of
    several on the same: `facts=False`)."""
    columns, rows = findings.shown()
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(cell_len(text) for text in own) for own in zip([c.title for c in columns], *cells, strict=True)]
    roomy = sum(widths) + 2 * len(widths) <= lesson.console().width
    table = lesson.new_table(*(column.title for column in columns), roomy=roomy)
    for shown, column in zip(table.columns, columns, strict=True):
        shown.justify = "left" if column.kind in ("string", "bool") else "right"
    for row in cells:
        table.add_row(*row)
    lines: list[RenderableType] = [Text(""), Text(printable(findings.title), style="bold"), table, *extra]
    if findings.notes:
        lines += [Text(""), *(Text(note) for note in findings.notes)]
    if not facts:
        return Group(*lines)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in findings.about.entries().items():
        grid.add_row(name, printable(value), style="dim")
    return Group(*lines, Text(""), grid, Text(""))
