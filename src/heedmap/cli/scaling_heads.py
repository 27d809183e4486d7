"""``heedmap scaling --model M``: the scale on the heads of a model, over a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.outputs import Outputs
from heedmap.cli.source import read_source
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.scaling_heads import Head

MOST = 8
ACROSS = 3
"""Temperatures side by side in a terminal of 80 columns."""


def measure_model(
    name: str | None,
    file: str | None,
    text: str | None,
    tokens: int | None,
    temperatures: Sequence[float],
    outputs: Outputs,
) -> None:
    """Measure every head of a model over a text, and print, draw and write what was found."""
    if file is None and text is None:
        raise InputError("scaling", expected="a text for the model", got="none", do="give --file FILE or --text TEXT")
    temperatures = list(dict.fromkeys(temperatures))
    source = read_source(text, file)
    with lesson.working(f"loading {name or 'minilm'}", quiet=outputs.as_json) as say:
        from heedmap.capture.models import resolve
        from heedmap.capture.positions import positions_of
        from heedmap.capture.tokens import tokenise
        from heedmap.experiments.scaling_heads import check_temperature, claim, measure_heads

        for temperature in temperatures:
            check_temperature(temperature)
        loaded = resolve(name)
        positions = positions_of(loaded.model.config)
        found, inputs = tokenise(loaded.tokenizer, source.text, max_tokens=tokens, positions=positions)
        say(f"measuring {loaded.name} on {len(found):,} tokens")
        heads = measure_heads(loaded.model, inputs, temperatures)
    judged = claim(heads)
    rows = [head.row() for head in heads]
    document = {
        "experiment": "scaling on heads",
        "model": loaded.name,
        "tokens": len(found),
        "temperatures": temperatures,
        "claim": {"holds": judged.holds, "answer": judged.sentence(), "kept": judged.kept, "heads": judged.heads},
        "saturated": [_name(head) for head in heads if head.saturates],
        "saturated_unscaled": [_name(head) for head in heads if head.saturates_unscaled],
        "heads": rows,
    }
    title = f"{loaded.name} · {len(found):,} tokens · {len(heads)} heads"

    def draw() -> Any:
        from heedmap.figures.scaling_heads import scaling_heads_figure

        return scaling_heads_figure

    outputs.deliver(document, rows, lambda: _page(title, heads, judged.sentence()), draw)


def _page(title: str, heads: Sequence[Head], answer: str) -> Group:
    now = [head for head in heads if head.saturates]
    unscaled = [head for head in heads if head.saturates_unscaled]
    blocks: list[Any] = [Text(f"\n{title}", style="bold"), _layers(heads)]
    blocks += _temperatures(heads)
    blocks.append(Text("\nHeads that saturate most, with the scale that the model uses", style="bold"))
    blocks.append(_most(heads))
    blocks += [
        Text(
            f"\n{len(now)} of {len(heads)} heads put over 0.9 on one key in most rows"
            + (f" ({', '.join(_name(head) for head in now[:MOST])}{', …' if len(now) > MOST else ''})" if now else "")
            + f"; without the scale it would be {len(unscaled)}."
        ),
        Text("\nHave components mean 0 and variance 1?", style="bold"),
        Text(answer + "\n"),
    ]
    return Group(*blocks)


def _by_layer(heads: Sequence[Head]) -> Iterator[tuple[str, list[Head]]]:
    """The heads of each layer, under the layer's name."""
    several = len({head.part for head in heads}) > 1
    for part, layer in dict.fromkeys((head.part, head.layer) for head in heads):
        chosen = [head for head in heads if (head.part, head.layer) == (part, layer)]
        yield (f"{part}.{layer}" if several else str(layer)), chosen


def _layers(heads: Sequence[Head]) -> Table:
    table = lesson.new_table("layer", "var q", "var k", "raw", "scaled", "in a row", "entropy", "unscaled", "> 0.9")
    for name, chosen in _by_layer(heads):
        table.add_row(
            name,
            *(f"{median(values):.2f}" for values in (
                [h.query.variance for h in chosen], [h.key.variance for h in chosen],
                [h.raw_spread for h in chosen], [h.scaled_spread for h in chosen],
                [h.scale * h.row_spread for h in chosen],
                [h.as_is.entropy for h in chosen], [h.unscaled.entropy for h in chosen],
            )),
            f"{median(h.as_is.saturated for h in chosen):.0%}",
        )  # fmt: skip
    return table


def _temperatures(heads: Sequence[Head]) -> list[Any]:
    """Entropy and saturation under other scales, in tables of as many temperatures as fit side by side."""
    given = [temperature for temperature, _ in heads[0].tempered]
    blocks: list[Any] = []
    for start in range(0, len(given), ACROSS):
        shown = range(start, min(start + ACROSS, len(given)))
        names = [name for index in shown for name in (f"T = {given[index]:g}", "> 0.9")]
        table = lesson.new_table("layer", "as it is", "> 0.9", *names)
        for name, chosen in _by_layer(heads):
            softmaxes = [[head.as_is for head in chosen], *([h.tempered[i][1] for h in chosen] for i in shown)]
            cells = [
                cell
                for found in softmaxes
                for cell in (f"{median(s.entropy for s in found):.2f}", f"{median(s.saturated for s in found):.0%}")
            ]
            table.add_row(name, *cells)
        if not blocks:
            title = "\nEntropy with scores divided by T as well, and rows with a weight > 0.9"
            blocks.append(Text(title, style="bold"))
        blocks.append(table)
    return blocks


def _most(heads: Sequence[Head]) -> Table:
    table = lesson.new_table("head", "raw", "scaled", "in a row", "entropy", "unscaled", "largest", "> 0.9", "unscaled")
    for head in sorted(heads, key=lambda head: -head.as_is.saturated)[:MOST]:
        table.add_row(
            _name(head), f"{head.raw_spread:.1f}", f"{head.scaled_spread:.2f}", f"{head.scale * head.row_spread:.2f}",
            f"{head.as_is.entropy:.2f}", f"{head.unscaled.entropy:.2f}", f"{head.as_is.largest:.3f}",
            f"{head.as_is.saturated:.0%}", f"{head.unscaled.saturated:.0%}",
        )  # fmt: skip
    return table


def _name(head: Head) -> str:
    return f"{head.layer}.{head.head}" if head.part == "self" else f"{head.part}.{head.layer}.{head.head}"
