"""``heedmap describe``: what kind of attention a model has, or how that of two models differs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.text import Text

from heedmap.cli import lesson

if TYPE_CHECKING:
    from heedmap.experiments.describe import Description, Kind

_SIDE = 8  # of a small picture of a mask


@click.command(short_help="Say what kind of attention a model has, layer by layer, or how two models differ.")
@click.argument("models", nargs=-1, required=True, metavar="MODEL [MODEL_B]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(models: tuple[str, ...], as_json: bool) -> None:
    """Say what kind of attention MODEL has: who sees whom, how heads share keys, how positions are told, what is added.

    From the config and one tiny forward pass: no weights are read, so any size will do.

    \b
    heedmap describe smollm2
    heedmap describe minilm smollm2
    """
    if len(models) > 2:
        raise click.UsageError("describe takes one model or two")
    with lesson.working("reading configs", quiet=as_json) as say:
        from heedmap.experiments.describe import describe

        found = []
        for name in models:
            say(f"describing {name}")
            found.append(describe(name))
    if as_json:
        document: dict[str, Any] = {"models": [description.document() for description in found]}
        if len(found) == 2:
            document["differences"] = [name for name, cells in _rows(found) if _differ(cells, found)]
        lesson.write_json(document)
    else:
        lesson.console().print(_page(found))


def _page(found: Sequence[Description]) -> Group:
    lines: list[Any] = [Text("")]
    for description in found:
        count = len(description.layers)
        facts = [f"{description.parameters:,} parameters", f"{count} attention layer{'' if count == 1 else 's'}"]
        if description.positions is not None:
            facts.append(f"up to {description.positions:,} tokens")
        title = Text(description.name, style="bold")
        title.append(f"  {description.model_class}  ·  {'  ·  '.join(facts)}", style="dim")
        lines.append(title)
    lines.append(Text(""))
    lines += _pictures(found)
    table = lesson.new_table("", *(label for description in found for label in _labels(description, found)))
    for column in table.columns[1:]:
        column.justify, column.no_wrap, column.overflow = "left", False, "fold"
    for name, cells in _rows(found):
        differs = len(found) == 2 and _differ(cells, found)
        flat = [cell for own in cells for cell in own]
        if any(flat):
            table.add_row(f"{'≠ ' if differs else '  ' if len(found) == 2 else ''}{name}", *flat,
                          style="yellow" if differs else None)  # fmt: skip
    lines.append(table)
    for description in found:
        lines += _stack(description)
    return Group(*lines, Text(""))


def _labels(description: Description, found: Sequence[Description]) -> list[str]:
    own = [_letter(index) for index in range(len(description.kinds))]
    if len(found) == 1:
        return own
    return [f"{description.name} {letter}" if len(own) > 1 else description.name for letter in own]


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else f"A{index}"


def _rows(found: Sequence[Description]) -> list[tuple[str, list[list[str]]]]:
    """Property → for each model its value in each kind."""
    columns = [[_facts(kind, layers) for kind, layers in description.kinds] for description in found]
    names = list(columns[0][0])
    return [(name, [[facts[name] for facts in own] for own in columns]) for name in names]


def _differ(cells: list[list[str]], found: Sequence[Description]) -> bool:
    return len(found) == 2 and set(cells[0]) != set(cells[1])


def _facts(kind: Kind, layers: list[int]) -> dict[str, str]:
    group = kind.query_heads // kind.key_heads
    heads = f"{kind.query_heads}" if group == 1 else f"{kind.query_heads} over {kind.key_heads}"
    window = ""
    if kind.window is not None:
        window = f"{kind.window:,} to either side" if kind.both_sides else f"{kind.window:,} keys back"
    return {
        "stack": "" if kind.part == "self" else kind.part,
        "layers": _ranges(layers),
        "sees": {"causal": "the past (causal)", "bidirectional": "everything (bidirectional)",
                 "cross": "another text (cross-attention)"}.get(kind.direction, kind.direction),
        "window": window,
        "chunk": "" if kind.chunk is None else f"{kind.chunk:,}",
        "heads": f"{heads}, {kind.variant}" + (f" (rank {kind.latent})" if kind.latent is not None else ""),
        "head size": f"{kind.head_dim}" + (f", values {kind.value_dim}" if kind.value_dim != kind.head_dim else ""),
        "positions": kind.positions,
        "scale": _scale(kind),
        "softcap": "" if kind.softcap is None else f"{kind.softcap:g}",
        "sinks": "one logit a head" if kind.sinks else "",
        "normalised": "query and key" if kind.normalised else "",
    }  # fmt: skip


def _scale(kind: Kind) -> str:
    root = kind.head_dim**-0.5
    if abs(kind.scale / root - 1) < 1e-6:
        return f"1/√{kind.head_dim} = {kind.scale:.4g}"
    return f"{kind.scale:.4g}" + (" (none, or within the query)" if kind.scale == 1 else "")


def _ranges(layers: list[int]) -> str:
    """`0-4, 6-10`; `0, 2, … 28` for an even step."""
    steps = {b - a for a, b in itertools.pairwise(layers)}
    if len(layers) > 3 and len(steps) == 1 and steps != {1}:
        return f"{layers[0]}, {layers[1]}, … {layers[-1]} ({len(layers)})"
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][1] + 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    text = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
    return text + (f" ({len(layers)})" if len(layers) > 1 else "")


def _pictures(found: Sequence[Description]) -> list[Text]:
    """Small pictures side by side: which keys (→) a query (↓) sees, and how query heads share key heads."""
    blocks = []
    for description in found:
        for label, (kind, _) in zip(_labels(description, found), description.kinds, strict=True):
            rows = [
                "".join("■ " if _sees(kind, query, key) else "· " for key in range(_SIDE)) for query in range(_SIDE)
            ]
            blocks.append([label, *rows, *_heads(kind)])
    width = max(max(len(row) for row in block) for block in blocks) + 4
    lines: list[Text] = []
    for start in range(0, len(blocks), 4):
        part = blocks[start : start + 4]
        for index in range(max(len(block) for block in part)):
            line = "".join((block[index] if index < len(block) else "").ljust(width) for block in part)
            lines.append(Text("  " + line.rstrip(), style="bold" if index == 0 else ""))
        lines.append(Text(""))
    return lines


def _sees(kind: Kind, query: int, key: int) -> bool:
    """Who sees whom in a text of eight tokens, with windows of three and chunks of four."""
    if kind.direction == "causal" and key > query:
        return False
    if kind.window is not None and abs(query - key) > (1 if kind.both_sides else 2):
        return False
    return kind.chunk is None or query // 4 == key // 4


def _heads(kind: Kind) -> list[str]:
    """`●●● ●●●` over `○   ○`: query heads in groups, each over its key head."""
    group = kind.query_heads // kind.key_heads
    if kind.query_heads > 24:
        return [f"query {kind.query_heads} ●", f"key   {kind.key_heads} ○"]
    if group == 1:
        return ["query " + "●" * kind.query_heads, "key   " + "○" * kind.key_heads]
    return ["query " + " ".join("●" * group for _ in range(kind.key_heads)),
            "key   " + " ".join("○".ljust(group) for _ in range(kind.key_heads)).rstrip()]  # fmt: skip


def _stack(description: Description) -> list[Text]:
    """The layers in order, each by the letter of its kind."""
    if len(description.kinds) == 1:
        return []
    letters = {kind: _letter(index) for index, (kind, _) in enumerate(description.kinds)}
    lines = [Text(""), Text(f"{description.name}, layer by layer", style="bold")]
    for part in dict.fromkeys(part for part, _, _ in description.layers):
        line = "".join(letters[kind] for own, _, kind in description.layers if own == part)
        lines.append(Text(f"  {'' if part == 'self' else part + ' '}{line}"))
    return lines
