"""The tables of attention sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heedmap.heads.about import about_run
from heedmap.heads.findings import Column, Findings
from heedmap.heads.sinks import Sinks

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


def sinks_findings(
    run: Run, found: Sinks, threshold: float, command: str, source: str | None = None
) -> tuple[Findings, Findings]:
    """By layer, for people; by head and token, for files."""
    named = ", ".join(f"{at} {text}" for at, text in zip(found.positions, found.labels, strict=True))
    facts = {"threshold": f"{threshold:g}", "part": found.part, "first tokens": named}
    about = about_run(run, command, items=len(found.heads), item="heads", more=facts, source=source)
    rates = ", ".join(f"{text} {rate:.1%}" for text, rate in zip(found.labels, found.rate(threshold), strict=True))
    notes = [
        "α n: mean weight on token n, over heads and the rows that may see it; score n: the same before the softmax; "
        "sink: heads above the threshold on any of the tokens.",
        f"Sink rate, share of heads above {threshold:g}: {found.rate_of_any(threshold):.1%} on any of these tokens "
        f"({rates}).",
    ]
    if found.why_no_score:
        notes.append(f"No scores: {found.why_no_score}.")
    numbers, weight = found.by_layer(found.weight)
    _, score = found.by_layer(found.score)
    columns = [Column("layer", "int64", spec="d"), Column("sinking", "int64", label="sink", spec="d")]
    for index, at in enumerate(found.positions):
        columns.append(Column(f"weight_{at}", label=f"α {at}", spec=".3f", unit="weight", listed=index < 4))
    for index, at in enumerate(found.positions):
        shown = index < 4 and not found.why_no_score
        columns.append(Column(f"score_{at}", label=f"score {at}", spec=".2f", unit="logit", listed=shown))
    rows = []
    for index, layer in enumerate(numbers):
        own = [value for (_, number, _), value in zip(found.heads, found.largest, strict=True) if number == layer]
        row: dict[str, int | float] = {"layer": layer, "sinking": int(sum(value > threshold for value in own))}
        row |= {f"weight_{at}": float(value) for at, value in zip(found.positions, weight[index], strict=True)}
        row |= {f"score_{at}": float(value) for at, value in zip(found.positions, score[index], strict=True)}
        rows.append(row)
    layers = Findings(
        "sinks_layers", f"What the first {len(found.positions)} tokens get, by layer", tuple(columns), rows, about,
        tuple(notes),
    )  # fmt: skip
    each = [
        {
            "part": part, "layer": layer, "head": head, "position": at, "text": text,
            "weight": float(found.weight[index, place]), "score": float(found.score[index, place]),
            "rows": int(found.rows[index, place]), "sinks": bool(found.weight[index, place] > threshold),
        }
        for index, (part, layer, head) in enumerate(found.heads)
        for place, (at, text) in enumerate(zip(found.positions, found.labels, strict=True))
    ]  # fmt: skip
    heads = Findings(
        "sinks", f"What the first {len(found.positions)} tokens get, by head",
        (Column("part", "string"), Column("layer", "int64"), Column("head", "int64"), Column("position", "int64"),
         Column("text", "string"), Column("weight", spec=".3f", unit="weight"),
         Column("score", spec=".2f", unit="logit"), Column("rows", "int64"), Column("sinks", "bool")),
        each, about, tuple(notes),
    )  # fmt: skip
    return layers, heads
