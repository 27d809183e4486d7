"""`heedmap export`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from heedmap.cli.selection import parse_heads, parse_layers
from heedmap.errors import InputError
from heedmap.runs.reader import Run, open_run
from heedmap.view.export import MAX_BYTES, Exported, export
from heedmap.view.ranges import HeadKey

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@click.command("export")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT.html", type=click.Path(path_type=Path))
@click.option("--max-bytes", "size", metavar="N", default=str(MAX_BYTES), help="The largest file to write: 10M, 500K.")
@click.option("--layers", metavar="L", help="Exact weights of these layers before others: 0-5,8.")
@click.option("--heads", metavar="H", help="Exact weights of these heads before others: 5.11, or 0-3 in every layer.")
def command(runs: tuple[Path, ...], out: Path, size: str, layers: str | None, heads: str | None) -> None:
    """Write runs into one HTML file that works from disk, without a network.

    It always holds the text, the means and a small map of every head; tables and exact weights of as many heads as
    fit, the most telling first.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError("export", expected="a name that ends in .html, last", got=str(out))
    opened = [open_run(path) for path in runs]
    results = export(opened, out, max_bytes=_bytes(size), first=_first(opened, layers, heads))
    click.echo(f"{out}  {out.stat().st_size:,} bytes")
    for result in results:
        click.echo(_line(result))


def _line(result: Exported) -> str:
    if result.note is None:
        return f"{result.name}: everything, {result.heads} heads"
    return f"{result.name}: {result.note}"


def _bytes(text: str) -> int:
    number = text.strip().upper().removesuffix("B")
    unit = number[-1:] if number[-1:] in UNITS else ""
    if not number.removesuffix(unit).isdecimal():
        raise InputError("--max-bytes", expected="a number of bytes such as 10M", got=repr(text))
    return int(number.removesuffix(unit)) * UNITS[unit]


def _first(runs: list[Run], layers: str | None, heads: str | None) -> list[HeadKey]:
    if layers is None and heads is None:
        return []
    chosen_layers = None if layers is None else set(parse_layers(layers))
    asked_heads = None if heads is None else parse_heads(heads)
    every = list(dict.fromkeys(head for run in runs for head in run.heads))
    within = [key for key in every if chosen_layers is None or key[1] in chosen_layers]
    known: set[int | str] = {name for _, layer, head in within for name in (head, f"{layer}.{head}")}
    unknown = [f"layer {layer}" for layer in sorted((chosen_layers or set()) - {layer for _, layer, _ in every})]
    unknown += [str(name) for name in asked_heads or [] if name not in known]
    if unknown:
        raise InputError(
            "export",
            expected="--layers and --heads of the run",
            got=f"{', '.join(unknown[:8])}{' …' if len(unknown) > 8 else ''}: none of its heads",
            do="layers and heads are counted from 0",
        )
    if asked_heads is None:
        return within
    return [key for key in within if key[2] in asked_heads or f"{key[1]}.{key[2]}" in asked_heads]
