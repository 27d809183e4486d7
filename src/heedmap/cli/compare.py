"""``heedmap compare``: what changed between two sets of the same texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedmap.cli.selection import parse_names

if TYPE_CHECKING:
    from heedmap.heads.findings import Findings
    from heedmap.sets.compare import Comparison
    from heedmap.sets.reader import TextSet


@click.command(short_help="Say how heads changed between two sets of the same texts.")
@click.argument("before", metavar="SETA", type=click.Path(path_type=Path))
@click.argument("after", metavar="SETB", type=click.Path(path_type=Path))
@click.option("--statistics", metavar="S", help="Only these values, parted by commas: entropy,previous.")
@click.option("--top", type=click.IntRange(min=1), default=20, help="Changes to list (20).")
@click.option("--out", metavar="DIR", help="Write all changes as Parquet, CSV and LaTeX into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with all changes.")
def command(before: Path, after: Path, statistics: str | None, top: int, out: str | None, as_json: bool) -> None:
    """Say how every head changed from SETA to SETB: two models, or two checkpoints, over the same texts.

    Each change is a mean over texts of the text's own change, with an interval; the clearest come first.

    \b
    heedmap scan reviews.jsonl --model step1000/ --out sets/step1000
    heedmap scan reviews.jsonl --model step2000/ --out sets/step2000
    heedmap compare sets/step1000 sets/step2000
    """
    from heedmap.cli import lesson
    from heedmap.cli.findings import out_folder, page
    from heedmap.sets.compare import compare
    from heedmap.sets.reader import open_set

    names = None if statistics is None else parse_names(statistics)
    folder = out_folder(out)
    first, second = open_set(before), open_set(after)
    found = compare(first, second, [names] if isinstance(names, str) else names)
    every = _findings(found, first, second, len(found.changes))
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        write_findings(every, folder)
    if as_json:
        lesson.write_json(every.document() | {"texts": found.texts, "only": list(found.only)})
    else:
        lesson.console().print(page(_findings(found, first, second, top)))


def _findings(found: Comparison, before: TextSet, after: TextSet, top: int) -> Findings:
    from heedmap.cli.findings import command_line
    from heedmap.heads.findings import About, Column, Findings

    apart = sum(change.told_apart for change in found.changes)
    names = [str(one.meta["model"].get("name")) for one in (before, after)]
    revisions = [_revision(one) for one in (before, after)]
    notes = (
        f"{apart:,} of {len(found.changes):,} changes have an interval without 0; by chance alone "
        f"{found.by_chance:,.0f} would.",
        "effect: the change in standard deviations of the value over texts."
        if any(change.change for change in found.changes)
        else "no value changed in any text.",
        *found.only,
    )
    rows: list[dict[str, Any]] = [
        {"part": one.part, "layer": one.layer, "head": one.head, "statistic": one.statistic, "before": one.before,
         "after": one.after, "change": one.change, "low": one.low, "high": one.high, "effect": one.effect,
         "texts": one.texts}
        for one in found.changes[:top]
    ]  # fmt: skip
    return Findings(
        "changes",
        f"What changed from {before.path.name} to {after.path.name}",
        (Column("part", "string", listed=len({one.part for one in found.changes}) > 1), Column("layer", "int64"),
         Column("head", "int64"), Column("statistic", "string"), Column("before", spec=".3f"),
         Column("after", spec=".3f"), Column("change", spec="+.3f"), Column("low", spec="+.3f"),
         Column("high", spec="+.3f"), Column("effect", spec="+.2f", unit="standard deviations"),
         Column("texts", "int64", spec=",d")),
        rows,
        About(
            " → ".join(dict.fromkeys(names)), " → ".join(dict.fromkeys(revisions)),
            str(before.meta["plan"].get("texts", {}).get("where", "")), found.texts, None, command_line(), "texts",
        ),
        notes,
    )  # fmt: skip


def _revision(one: TextSet) -> str:
    """The model's revision; of a local one, which has none, where it lay."""
    revision, asked = one.meta["model"].get("revision"), one.meta["plan"].get("model")
    if revision is not None or asked is None:
        return str(revision or "unknown")
    return "none, in memory" if asked == "memory" else f"none, from {asked}"
