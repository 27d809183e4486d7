"""``heedmap spans``: which passage each token of a run read, by layer and head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.picture import DARK, picture_path

if TYPE_CHECKING:
    from heedmap.heads.passages import Readings
    from heedmap.runs.reader import Run

Crossed = tuple[list[str], list[str], np.ndarray]
"""Names of rows, names of columns, and the mass from rows on columns."""
_LISTED = 5
_ROWS = 40


@click.command(short_help="Say which passage each token of a run read, by head.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--rows", "which", metavar="R", help="Whose reading: all, generated, target (a decoder's text), or the "
              "name of a passage. Without it, what was generated, else a target, else all.")  # fmt: skip
@click.option("--head", metavar="H", help="One head, as 5.11, in place of the mean over all heads.")
@click.option("--each", is_flag=True, help="Also list what each token read.")
@click.option("--png", metavar="F", help="Draw it as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every row and head.")
def command(
    run: Path, which: str | None, head: str | None, each: bool, png: str | None, dark: bool, as_json: bool
) -> None:
    """Say which passage each token of RUN read. The run names its passages by look's --spans or --marked.

    \b
    heedmap look --marked "[[fact]]Rome is old.[[/fact]] [[question]]Is it?[[/question]]" --out runs/rome
    heedmap spans runs/rome --rows question --png rome.png
    """
    picture = picture_path(png)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")

    from heedmap.figures.overview import find_head
    from heedmap.heads.passages import between, read_passages
    from heedmap.runs.reader import open_run

    opened = open_run(run)
    readings = read_passages(opened, which)
    chosen = None if head is None else find_head(opened, head, "spans")
    if chosen is not None:
        readings.of_head(chosen)  # refuses, before anything is drawn, a head that reads another text
    crossed = between(opened)
    if picture is not None:
        from heedmap.figures.passages import passages_figure
        from heedmap.figures.save import save

        figure = passages_figure(
            readings, opened.text, _subtitle(opened, readings, chosen), chosen, facecolor=DARK if dark else "white"
        )
        save(figure, picture)
    if as_json:
        lesson.write_json(_document(readings, crossed, picture))
    else:
        lesson.console().print(_page(opened, readings, chosen, crossed, each=each, picture=picture))


def _subtitle(run: Run, readings: Readings, head: tuple[str, int, int] | None) -> str:
    who = "mean over all heads" if head is None else f"head {head[1]}.{head[2]}"
    what = {
        "all": "what each token read",
        "generated": "what each generated token was read from",
        "target": "what each token of the target was read from",
    }
    whose = what.get(readings.which, f"what each token of “{readings.which}” read")
    tokens = run.tokens_of().num_rows
    return f"{run.meta['model'].get('name')}   ·   {tokens:,} tokens   ·   {whose}, {who}"


def _document(readings: Readings, crossed: Crossed, picture: Path | None) -> dict[str, Any]:
    by_head, (whose, columns, table) = readings.by_head, crossed
    return {
        "picture": None if picture is None else str(picture),
        "passages": [{"name": n, "tokens": t} for n, t in zip(readings.names, readings.tokens, strict=True)],
        "rows": readings.which,
        "note": readings.note,
        "between": {name: _named(columns, table[i]) for i, name in enumerate(whose)},
        "heads": [
            {"part": part, "layer": layer, "head": head, "mass": _named(readings.names, by_head[i])}
            for i, (part, layer, head) in enumerate(readings.heads)
        ],
        "tokens": [
            {"position": int(position), "text": label, "mass": _named(readings.names, masses)}
            for position, label, masses in zip(readings.positions, readings.labels, readings.by_row, strict=True)
        ],
    }


def _named(names: Sequence[str], masses: np.ndarray) -> dict[str, float | None]:
    return {name: float(mass) if np.isfinite(mass) else None for name, mass in zip(names, masses, strict=True)}


def _page(
    run: Run,
    readings: Readings,
    head: tuple[str, int, int] | None,
    between: Crossed,
    *,
    each: bool,
    picture: Path | None,
) -> Group:
    from heedmap.cli.summary import printable

    names = [printable(name) for name in readings.names]
    lines: list[Any] = [Text(""), Text(printable(run.text), style="bold", no_wrap=True, overflow="ellipsis")]
    lines += [Text(_subtitle(run, readings, head), style="dim"), Text("")]
    lines += [Text("Weight from the tokens of … (row) on each passage (column), mean over heads", style="bold")]
    whose, columns, table = between
    tokens = dict(zip(readings.names, readings.tokens, strict=True))
    crossed = lesson.new_table("", *map(printable, columns))
    for name, masses in zip(whose, table, strict=True):
        crossed.add_row(printable(name), *(f"{mass:.2f}" if np.isfinite(mass) else "" for mass in masses))
    crossed.add_row("tokens", *(f"{tokens[name]:,}" if name in tokens else "" for name in columns), style="dim")
    lines += [crossed, Text(""), Text(_heads_title(readings), style="bold"), _heads(readings, names)]
    if each or head is not None:
        lines += [Text(""), _each(readings, head, names)]
        if len(readings.labels) > _ROWS:
            lines.append(Text(f"{len(readings.labels) - _ROWS:,} more: --json lists them all", style="dim"))
    if readings.note:
        lines += [Text(""), Text(readings.note, style="yellow")]
    if picture is not None:
        lines += [Text(""), Text(f"picture  {picture}")]
    return Group(*lines, Text(""))


def _heads_title(readings: Readings) -> str:
    named = {"all": "all tokens", "generated": "generated tokens", "target": "the target's tokens"}
    whose = named.get(readings.which, f"“{readings.which}”")
    return f"Heads in which {whose} read most of a passage"


def _heads(readings: Readings, names: list[str]) -> Table:
    several = len({part for part, _, _ in readings.heads}) > 1
    table = lesson.new_table("passage", "mean", "most")
    table.columns[2].justify, table.columns[2].no_wrap = "left", False
    by_head = readings.by_head
    for index, name in enumerate(names):
        values = by_head[:, index]
        order = np.argsort(-np.nan_to_num(values, nan=-1), kind="stable")[:_LISTED]
        most = []
        for at in order:
            part, layer, head = readings.heads[at]
            most.append(f"{part + ' ' if several else ''}{layer}.{head} {values[at]:.2f}")
        table.add_row(name, f"{np.nanmean(values):.2f}", "  ".join(most))
    return table


def _each(readings: Readings, head: tuple[str, int, int] | None, names: list[str]) -> Table:
    from heedmap.cli.summary import printable

    table = lesson.new_table("token", *names)
    masses = readings.by_row if head is None else readings.of_head(head)
    for position, label, row in list(zip(readings.positions, readings.labels, masses, strict=True))[:_ROWS]:
        table.add_row(f"{position} {printable(label)}", *(f"{mass:.2f}" if np.isfinite(mass) else "" for mass in row))
    return table
