"""``heedmap statistics``: what can be measured, with formula, unit, axis and source."""

from __future__ import annotations

import difflib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from heedmap.cli import lesson
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.statistics.page import Entry


@click.command(short_help="List what can be measured: formula, unit, axis and source of each statistic.")
@click.argument("names", nargs=-1)
@click.option("--markdown", is_flag=True, help="Print the page docs/statistics.md.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(names: tuple[str, ...], markdown: bool, as_json: bool) -> None:
    """List the statistics that look, watch and measure know, or say all about those named NAMES.

    \b
    heedmap statistics
    heedmap statistics induction span_mass
    """
    from heedmap.statistics.page import entries
    from heedmap.statistics.page import markdown as page

    if markdown:
        if names or as_json:
            raise click.UsageError("--markdown prints the whole page: leave out names and --json")
        sys.stdout.write(page())
        return
    listed = _chosen(names, entries())
    if as_json:
        lesson.write_json({"statistics": [asdict(entry) for entry in listed]})
    else:
        lesson.console().print(_each(listed) if names else _table(listed))


def _chosen(names: tuple[str, ...], listed: list[Entry]) -> list[Entry]:
    known = {entry.name: entry for entry in listed}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known)
            raise InputError(
                "statistics",
                expected="the name of a statistic",
                got=repr(name),
                do=f"did you mean {close[0]}?" if close else "heedmap statistics lists them",
            )
    return [known[name] for name in names] or listed


def _table(listed: list[Entry]) -> Group:
    from heedmap.statistics.page import AXES

    blocks: list[object] = []
    for axis, title in AXES.items():
        table = lesson.new_table("name", "formula", "unit", "asked", "source")
        for column in table.columns:
            column.justify, column.overflow = "left", "fold"
        table.columns[1].no_wrap = table.columns[4].no_wrap = False
        for entry in (entry for entry in listed if entry.axis == axis):
            table.add_row(entry.name, entry.formula, entry.unit, entry.asked, entry.source)
        blocks += [Text(""), Text(f"Of {title}", style="bold"), Text(""), table]
    hint = "heedmap statistics NAME says more · heedmap look … --statistics default,NAME measures it · all: everything"
    return Group(*blocks, Text(""), Text(hint, style="dim"))  # pyright: ignore[reportArgumentType]


def _each(listed: list[Entry]) -> Group:
    blocks: list[object] = []
    for entry in listed:
        blocks += [Text(""), Text(entry.name, style="bold cyan"), Padding(Text(entry.says), (0, 2))]
        facts = {
            "formula": entry.formula,
            "of": entry.axis,
            "unit": entry.unit,
            "kept in": entry.column,
            "of a head": {"mean": "mean over rows", "max": "largest of its rows"}.get(entry.over_rows, ""),
            "needs": entry.needs,
            "asked": entry.asked,
            "source": entry.source,
        }
        blocks += [Text(f"  {name:<10} {fact}") for name, fact in facts.items() if fact]
    return Group(*blocks, Text(""))  # pyright: ignore[reportArgumentType]
