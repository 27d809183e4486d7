"""``heedmap heads``: what each head does, by the bars of the literature, and the induction probe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.picture import DARK, picture_path
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.heads.types import TypedHead, Typing

_LISTED = 6


@click.command(short_help="Say what each head of a run does, or probe a model for induction heads.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--probe-induction", "probe", is_flag=True, help="Run random tokens twice over through --model instead.")
@click.option("--model", metavar="M", help="The model to probe: packaged, folder, GGUF or hub id.")
@click.option("--length", type=click.IntRange(8, 4096), metavar="N", help="Random tokens of one half (64).")
@click.option("--draws", type=click.IntRange(1, 1000), metavar="N", help="Sequences whose mean is taken (1).")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of the random tokens (0).")
@click.option("--all", "every", is_flag=True, help="List every head with its types, not the strongest of each type.")
@click.option("--png", metavar="F", help="Draw the heads as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every value of every head.")
def command(
    run: Path | None,
    probe: bool,
    model: str | None,
    length: int | None,
    draws: int | None,
    seed: int | None,
    every: bool,
    png: str | None,
    dark: bool,
    as_json: bool,
) -> None:
    """Say what each head of RUN does: looks at the token before, at the first one, at earlier copies …

    A head may be of several types, or of none. Each type has a value and a bar, mostly from a paper.

    \b
    heedmap heads runs/cat --png types.png
    heedmap heads --probe-induction --model smollm2
    """
    picture = picture_path(png)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")
    if probe:
        if run is not None or model is None:
            raise InputError(
                "heads",
                expected="--probe-induction with --model M and no run",
                got="no model" if model is None else str(run),
            )
        typing, facts = _probe(model, length or 64, draws or 1, seed or 0, quiet=as_json)
    else:
        if run is None or any(given is not None for given in (model, length, draws, seed)):
            raise InputError(
                "heads",
                expected="a run" if run is None else "--model, --length, --draws, --seed with --probe-induction",
                got="none" if run is None else "a run",
                do="heedmap heads runs/cat, or heedmap heads --probe-induction --model smollm2",
            )
        typing, facts = _of_run(run)
    if picture is not None:
        from heedmap.figures.headtypes import head_types
        from heedmap.figures.save import save

        figure = head_types(typing, facts["title"], facts["subtitle"], facecolor=DARK if dark else "white")
        save(figure, picture)
    if as_json:
        lesson.write_json(_document(typing, facts, picture))
    else:
        lesson.console().print(_page(typing, facts, picture, every=every))


def _of_run(path: Path) -> tuple[Typing, dict[str, Any]]:
    from heedmap.cli.wording import printable
    from heedmap.heads.evidence import type_heads
    from heedmap.runs.reader import open_run

    run = open_run(path)
    texts = {info.key_sequence: run.tokens_of(info.key_sequence).column("text").to_pylist() for info in run.layers}
    labels = {(info.part, info.layer): (info.key_sequence, texts[info.key_sequence]) for info in run.layers}
    tokens = run.tokens_of().num_rows
    return type_heads(run), {
        "run": str(path),
        "title": printable(run.text),
        "subtitle": f"{run.meta['model'].get('name')}   ·   {tokens:,} tokens   ·   what each head looks at",
        "labels": labels,
        "note": "On this text: another one may show a head in another light.",
    }


def _probe(model: str, length: int, draws: int, seed: int, *, quiet: bool) -> tuple[Typing, dict[str, Any]]:
    with lesson.working(f"loading {model}", quiet=quiet) as say:
        from heedmap.capture.models import resolve
        from heedmap.experiments.induction import probe_induction

        loaded = resolve(model)
        say("running random tokens twice over")
        found = probe_induction(loaded, length=length, draws=draws, seed=seed)
    kind = f"{found.tokens} tokens: {length} random ones twice over" + (", behind the beginning token"
                                                                       if found.tokens % 2 else "")  # fmt: skip
    drawn = f"{kind}, seed {seed}" if draws == 1 else f"{kind}, mean of {draws} draws, seed {seed}"
    spread = {name: table.std(0, ddof=1).tolist() for name, table in found.values.items()} if draws > 1 else None
    return found.typing(), {
        "probe": {"model": found.model, "length": length, "draws": draws, "seed": seed, "tokens": found.tokens,
                  "over_half_on_first": found.on_first, "spread": spread},
        "title": f"Repeated random tokens through {found.model}",
        "subtitle": drawn,
        "note": f"{found.on_first} of {len(found.heads)} heads put over half of their weight on the first token.",
    }  # fmt: skip


def _document(typing: Typing, facts: dict[str, Any], picture: Path | None) -> dict[str, Any]:
    from dataclasses import asdict

    from heedmap.heads.types import TYPES

    return {
        **{name: facts[name] for name in ("run", "probe") if name in facts},
        "picture": None if picture is None else str(picture),
        "types": {name: asdict(kind) | {"heads": len(typing.of_type(name))} for name, kind in TYPES.items()},
        "unjudged": dict(typing.unjudged),
        "none": len(typing.none),
        "heads": [
            {"part": head.part, "layer": head.layer, "head": head.head, "types": list(head.types),
             "values": dict(head.values), "sink": head.sink}
            for head in typing.heads
        ],
    }  # fmt: skip


def _page(typing: Typing, facts: dict[str, Any], picture: Path | None, *, every: bool) -> Group:
    from heedmap.heads.types import TYPES

    several = len({head.part for head in typing.heads}) > 1
    lines: list[Any] = [Text(""), Text(facts["title"], style="bold", no_wrap=True, overflow="ellipsis")]
    lines += [Text(facts["subtitle"], style="dim"), Text("")]
    if every:
        lines.append(_each(typing, several))
    else:
        table = lesson.new_table("type", "bar", "heads", "strongest")
        table.columns[3].justify, table.columns[3].no_wrap = "left", False
        for name, kind in TYPES.items():
            if name in typing.unjudged:
                continue
            found = typing.of_type(name)
            strongest = "  ".join(f"{_name(head, several)} {head.values[name]:.2f}" for head in found[:_LISTED])
            more = " …" if len(found) > _LISTED else ""
            unit = " nats" if kind.unit == "nats" else " of rows" if kind.unit == "rows" else ""
            table.add_row(name, f"{kind.sign} {kind.bar:g}{unit}", str(len(found)), strongest + more)
        table.add_row("no type", "", str(len(typing.none)), _listed(typing.none, several))
        lines.append(table)
    sinks = _sinks(typing, facts.get("labels"))
    if sinks:
        lines += [Text(""), Text(sinks, style="dim")]
    if typing.unjudged and "probe" not in facts:
        lines += [Text(""), Text("Not judged", style="bold")]
        lines += [Text(f"  {name:<12} {why}", style="dim") for name, why in typing.unjudged.items()]
    lines += [Text(""), Text(facts["note"])]
    if picture is not None:
        lines.append(Text(f"picture  {picture}"))
    return Group(*lines, Text(""))


def _each(typing: Typing, several: bool) -> Any:
    table = lesson.new_table("head", "types, each with its value")
    table.columns[1].justify, table.columns[1].no_wrap = "left", False
    for head in typing.heads:
        types = "  ".join(f"{name} {head.values[name]:.2f}" for name in head.types)
        table.add_row(_name(head, several), types or "none")
    return table


def _listed(heads: list[TypedHead], several: bool) -> str:
    return "  ".join(_name(head, several) for head in heads[:_LISTED]) + (" …" if len(heads) > _LISTED else "")


def _sinks(typing: Typing, labels: Mapping[tuple[str, int], tuple[str, list[str]]] | None) -> str:
    """Which tokens the sinks are, most heads first; `labels`: the text of each layer's keys, and its tokens."""
    from heedmap.cli.wording import counted, printable

    found = [(labels[head.part, head.layer], head.sink) for head in typing.of_type("sink")] if labels else []
    count = Counter((text, at, names[at]) for (text, names), at in found if at is not None)
    several = len({text for text, _, _ in count}) > 1
    named = (
        f"{printable(name) or '␣'} #{at}{f' of the {text}' if several else ''} ({counted(heads, 'head')})"
        for (text, at, name), heads in count.most_common(4)
    )
    return "sinks: " + ", ".join(named) if count else ""


def _name(head: TypedHead, several: bool) -> str:
    return f"{head.part + ' ' if several else ''}{head.layer}.{head.head}"
