"""What can be measured, as a list for programs and as the page `docs/statistics.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from heedmap.statistics.base import Statistic
from heedmap.statistics.catalogue import ALWAYS, DEFAULT, RATIOS, STATISTICS

AXES = {
    "query": "each query row",
    "key": "each key",
    "distance": "each distance, query position − key position",
    "cell": "each cell of a pooled map",
}
_RATIO_SAYS = {
    "received_mean": "What a key receives from a row that may see it, on average.",
    "distance_mean": "The weight of a pair at a distance, on average over the allowed pairs.",
    "map_mean": "The weight of a pair in a cell, on average over its rows that count and its keys, hidden pairs as 0.",
}
_NEEDS = {
    "value": "value",
    "token_ids": "token ids",
    "spans": "named spans",
    "classes": "kinds of token",
    "parts": "parts",
}


@dataclass(frozen=True)
class Entry:
    """One statistic as it is listed.

    Attributes:
        name, axis, unit, formula, source: as its author states them; `source` is "" where it is a plain definition.
        says: what it means, in a sentence or three.
        needs: what must be known beside query and key, or "".
        positional: whether it has no meaning in cross-attention.
        over_rows: how the rows of a head become one value in the head table, or "none".
        asked: "always", "default" or "by name".
        column: where a run keeps it.
    """

    name: str
    axis: str
    unit: str
    formula: str
    source: str
    says: str
    needs: str
    positional: bool
    over_rows: str
    asked: str
    column: str


def entries() -> list[Entry]:
    """Every statistic and every ratio of two, in the order of axes and then of the catalogue."""
    listed = [*_statistics(), *_ratios()]
    return [entry for axis in AXES for entry in listed if entry.axis == axis]


def _statistics() -> Iterator[Entry]:
    for name, statistic in STATISTICS.items():
        says = inspect.cleandoc(type(statistic).__doc__ or "").replace("\n\n", " ").replace("\n", " ")
        yield Entry(
            name, statistic.axis, statistic.unit, statistic.formula, statistic.source, says,
            _NEEDS.get(statistic.needs, ""), statistic.positional, statistic.over_rows,
            _asked(name), _column(statistic),
        )  # fmt: skip


def _ratios() -> Iterator[Entry]:
    for name, ratio in RATIOS.items():
        over = STATISTICS[ratio.numerator]
        formula = f"{ratio.numerator} / {ratio.denominator}"
        yield Entry(
            name, over.axis, ratio.unit, formula, "", _RATIO_SAYS[name], "", over.positional, "none", _asked(name),
            _place(name, over.axis, "float32"),
        )  # fmt: skip


def _asked(name: str) -> str:
    if name in ALWAYS:
        return "always"
    brings = {
        part for asked in DEFAULT if asked in RATIOS for part in (RATIOS[asked].numerator, RATIOS[asked].denominator)
    }
    return "default" if name in DEFAULT or name in brings else "by name"


_INTEGERS = ("argmax", "top_keys", "value_top_keys", "rows_that_may_see", "distance_pairs", "map_area")
_LISTS = ("top_keys", "top_weights", "value_top_keys", "value_top_weights", "span_mass", "class_mass")


def _column(statistic: Statistic) -> str:
    if statistic.needs == "parts":
        return "not kept"
    number = "int32" if statistic.name in _INTEGERS else "float64" if statistic.reduction == "sum" else "float32"
    return _place(statistic.name, statistic.axis, f"list of {number}" if statistic.name in _LISTS else number)


def _place(name: str, axis: str, number: str) -> str:
    if axis != "cell":
        return f"{axis}.parquet, {number}"
    return "not kept" if name == "map_sum" else f"maps.safetensors, {number.replace('float64', 'float32')}"


_INTRODUCTION = """\
# What can be measured

<!-- written by `heedmap statistics --markdown`; a test holds it to the code -->

`heedmap look --statistics NAMES`, `heedmap.look(…, statistics=[…])`, `heedmap.watch` and `heedmap.measure` take these
names, `default` for the default ones, and `all` for everything that the call can tell. In the formulas w is a weight,
s a score (scaled, softcapped, with bias), q a query row, k a key, i and j text positions, t a token, v a value vector.
All are exact over the whole text, in memory linear in its length.

* **kept in**: the table of a run and the type of its column there; lists have as many entries as the statistic has
  places a row (10 keys, or the spans and classes that `labels` in `run.json` names).
* **head**: how the rows of a head become its value in `head.parquet`. Rows whose value is NaN have nothing to say (no
  previous token, no earlier copy) and are left out; `rows_NAME` then says how many count.
* **needs**: what must be known beside query and key. `look` knows it all, but for spans, which are named with `--spans`
  or `--marked`, and parts, by which `scan` makes the map of a set; `watch(…, known=heedmap.Known(token_ids=ids))` and
  `measure` are told.
* Statistics marked ↔ speak of distance, which cross-attention has not.

`row_max` and `row_sum` are always measured: they make any window of weights exact. Classes are `special` (tokens that
the tokenizer adds or that stand for a role) and `punctuation` (Unicode categories P…).
"""


def markdown() -> str:
    """The whole of `docs/statistics.md`."""
    lines = _INTRODUCTION.splitlines()
    for axis, title in AXES.items():
        lines += ["", f"## Of {title}", "", "| name | formula | unit | kept in | head | needs | asked | source |"]
        lines.append("|---|---|---|---|---|---|---|---|")
        for entry in (entry for entry in entries() if entry.axis == axis):
            cells = (
                f"`{entry.name}`" + (" ↔" if entry.positional else ""),
                entry.formula,
                entry.unit,
                f"`{entry.column.split(', ')[0]}`, {entry.column.split(', ')[1]}"
                if ", " in entry.column
                else entry.column,
                {"mean": "mean", "max": "largest"}.get(entry.over_rows, ""),
                entry.needs,
                entry.asked,
                entry.source,
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
        lines += [f"* `{entry.name}`: {entry.says}" for entry in entries() if entry.axis == axis]
    return "\n".join(lines) + "\n"
