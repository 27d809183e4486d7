"""``heedmap scaling --model M``: the scale on the heads of a model, over a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.source import read_source
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.scaling_heads import Head

MOST = 8


def measure_model(
    name: str | None,
    file: str | None,
    text: str | None,
    tokens: int | None,
    temperatures: Sequence[float],
    picture: Path | None,
    facecolor: str,
    table: Path | None,
    *,
    as_json: bool,
) -> None:
    """Measure every head of a model over a text, and print, draw and write what was found."""
    if file is None and text is None:
        raise InputError("scaling", expected="a text for the model", got="none", do="give --file FILE or --text TEXT")
    for temperature in temperatures:
        if not 0 < temperature < float("inf"):
            raise InputError("scaling", expected="a --temperature above 0", got=f"{temperature}")
    source = read_source(text, file)
    with lesson.working(f"loading {name or 'minilm'}", quiet=as_json) as say:
        from heedmap.capture.models import resolve
        from heedmap.capture.positions import positions_of
        from heedmap.capture.tokens import tokenise
        from heedmap.experiments.scaling_heads import claim, measure_heads

        loaded = resolve(name)
        positions = positions_of(loaded.model.config)
        found, inputs = tokenise(loaded.tokenizer, source.text, max_tokens=tokens, positions=positions)
        say(f"measuring {loaded.name} on {len(found):,} tokens")
        heads = measure_heads(loaded.model, inputs, temperatures)
    judged = claim(heads)
    document = lesson.finite(
        {
            "experiment": "scaling on heads",
            "model": loaded.name,
            "tokens": len(found),
            "temperatures": list(temperatures),
            "claim": {"holds": judged.holds, "answer": judged.sentence(), "kept": judged.kept, "heads": judged.heads},
            "saturated": [_name(head) for head in heads if head.saturates],
            "saturated_unscaled": [_name(head) for head in heads if head.saturates_unscaled],
            "heads": [head.row() for head in heads],
        }
    )
    if picture is not None:
        from heedmap.figures.save import save
        from heedmap.figures.scaling_heads import scaling_heads_figure

        save(scaling_heads_figure(document, facecolor=facecolor), picture)
    if table is not None:
        lesson.write_parquet([head.row() for head in heads], table)
    if as_json:
        lesson.write_json(document)
    else:
        title = f"{loaded.name} · {len(found):,} tokens · {len(heads)} heads"
        lesson.console().print(_page(title, heads, judged.sentence()))


def _page(title: str, heads: Sequence[Head], answer: str) -> Group:
    now = [head for head in heads if head.saturates]
    unscaled = [head for head in heads if head.saturates_unscaled]
    blocks: list[Any] = [Text(f"\n{title}", style="bold"), _layers(heads)]
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


def _layers(heads: Sequence[Head]) -> Table:
    temperatures = [f"T={temperature:g}" for temperature, _ in heads[0].tempered]
    table = lesson.new_table(
        "layer", "var q", "var k", "raw", "scaled", "in a row", "entropy", "unscaled", *temperatures, "> 0.9"
    )
    for place in dict.fromkeys((head.part, head.layer) for head in heads):
        of_layer = [head for head in heads if (head.part, head.layer) == place]
        several = len({head.part for head in heads}) > 1
        entropies = [median(head.as_is.entropy for head in of_layer), median(h.unscaled.entropy for h in of_layer)]
        entropies += [median(h.tempered[i][1].entropy for h in of_layer) for i in range(len(temperatures))]
        table.add_row(
            f"{place[0]}.{place[1]}" if several else str(place[1]),
            *(f"{median(values):.2f}" for values in (
                [h.query.variance for h in of_layer], [h.key.variance for h in of_layer],
                [h.raw_spread for h in of_layer], [h.scaled_spread for h in of_layer],
                [h.scale * h.row_spread for h in of_layer],
            )),
            *(f"{value:.2f}" for value in entropies),
            f"{median(h.as_is.saturated for h in of_layer):.0%}",
        )  # fmt: skip
    return table


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
