"""What was found of syntax, as tables: one row a relation, one a relation and reading, one a relation and head."""

from __future__ import annotations

from collections.abc import Sequence

from heedmap.errors import InputError
from heedmap.heads.findings import About, Cell, Column, Findings
from heedmap.heads.syntax import READINGS, BestHead, Relation, relation_of

FEWEST = 20
"""Arcs that a relation has in each half at least, to be listed: with fewer a choice among heads says little."""
MARGIN = 0.10
"""By how much a head must be better than the offset to be said to follow a relation; ours."""

_SHARE = ".1%"
_GAIN = "+.1%"
_COLUMNS = (
    Column("relation", "string"),
    Column("items", "int64", "arcs", ",", "arcs", listed=False),
    Column("items_odd", "int64", "scored", ",", "arcs"),
    Column("head", "string"),
    Column("reading", "string"),
    Column("accuracy", "float64", "", _SHARE, "share of arcs"),
    Column("interval", "string", "95 %"),
    Column("baseline", "float64", "offset", _SHARE, "share of arcs"),
    Column("offset", "int64", "at", "+d", "words"),
    Column("gain", "float64", "", _GAIN, "share of arcs"),
    Column("gain_interval", "string", "95 % of gain", listed=False),
    Column("beats_offset", "bool", listed=False),
    Column("low", listed=False, unit="share of arcs"),
    Column("high", listed=False, unit="share of arcs"),
    Column("gain_low", listed=False, unit="share of arcs"),
    Column("gain_high", listed=False, unit="share of arcs"),
    Column("accuracy_even", listed=False, unit="share of arcs"),
    Column("baseline_even", listed=False, unit="share of arcs"),
    Column("part", "string", listed=False),
    Column("layer", "int64", listed=False),
    Column("head_number", "int64", listed=False),
)
_HEAD_COLUMNS = (
    Column("relation", "string"),
    Column("reading", "string"),
    Column("part", "string"),
    Column("layer", "int64"),
    Column("head", "int64"),
    Column("accuracy", spec=_SHARE, unit="share of arcs"),
    Column("accuracy_even", spec=_SHARE, unit="share of arcs"),
    Column("accuracy_odd", spec=_SHARE, unit="share of arcs"),
)


def chosen(relations: Sequence[Relation], names: Sequence[str] | None) -> list[Relation]:
    """The relations of these names in this order; without names those with at least 20 arcs in each half.

    Raises:
        InputError: a name that no arc has, or no relation with arcs enough.
    """
    if names is None:
        kept = [relation for relation in relations if min(relation.even_items, relation.odd_items) >= FEWEST]
        if kept:
            return kept
        raise InputError(
            "syntax",
            expected=f"a relation with at least {FEWEST} arcs in the even and in the odd sentences",
            got=f"{sum(relation.items for relation in relations)} arcs in all",
            do="take more sentences, or name relations with --relations",
        )
    known = {relation.name: relation for relation in relations}
    for name in names:
        if name not in known:
            hint = relation_of(name)
            raise InputError(
                "--relations",
                expected=f"relations among {', '.join(known)}",
                got=repr(name),
                do=f"subtypes are cut: take {hint}" if hint in known else None,
            )
    return [known[name] for name in names]


def _row(relation: Relation, reading: str | None) -> dict[str, Cell]:
    best, baseline = relation.best(reading), relation.baseline()
    gain, gain_low, gain_high = relation.gain(best, baseline)
    return {
        "relation": relation.name,
        "items": relation.items,
        "items_odd": relation.odd_items,
        "head": head_name(best, relation),
        "reading": best.reading,
        "accuracy": best.accuracy,
        "interval": interval(best.low, best.high),
        "baseline": baseline.accuracy,
        "offset": baseline.offset,
        "gain": gain,
        "gain_interval": interval(gain_low, gain_high, sign=True),
        "beats_offset": bool(gain > MARGIN),
        "low": best.low,
        "high": best.high,
        "gain_low": gain_low,
        "gain_high": gain_high,
        "accuracy_even": best.chosen,
        "baseline_even": baseline.chosen,
        "part": best.part,
        "layer": best.layer,
        "head_number": best.head,
    }


def head_name(best: BestHead, relation: Relation) -> str:
    """`5.11`, with the name of its part where the model has several."""
    several = len({part for part, _, _ in relation.heads}) > 1
    return f"{best.part + ' ' if several else ''}{best.layer}.{best.head}"


def interval(low: float, high: float, *, sign: bool = False) -> str:
    """`80.1–84.9`, in percent; nothing where there is none."""
    if low != low or high != high:
        return ""
    form = "+.1f" if sign else ".1f"
    between = " to " if sign else "–"
    return f"{100 * low:{form}}{between}{100 * high:{form}}"


def findings(
    relations: Sequence[Relation], about: About, *, causal: bool, left_out: int = 0
) -> tuple[Findings, Findings, Findings]:
    """Three tables: the best head of each relation, the best by each reading, and every head.

    Args:
        relations: those to be told.
        causal: whether no word sees a later one.
        left_out: how many relations have too few arcs to be listed.
    """
    notes = [
        "Head and offset are chosen on the sentences with even numbers and scored on those with odd ones; 95 %: "
        "bootstrap over sentences."
    ]
    if causal:
        notes.append(
            "No head of this model sees a later word: what a row points to stands to its left, what points to a column "
            "to its right. Arcs the other way cannot be found, and count as wrong."
        )
    if left_out:
        notes.append(
            f"{left_out} relation{'s have' if left_out > 1 else ' has'} fewer than {FEWEST} arcs in one half and "
            f"{'are' if left_out > 1 else 'is'} not listed; --relations names relations."
        )
    best = [_row(relation, None) for relation in relations]
    by_reading = [_row(relation, reading) for relation in relations for reading in READINGS]
    every = [row for relation in relations for row in _heads(relation)]
    title = f"Heads of {about.model} that follow a relation"
    return (
        Findings("syntax", title, _COLUMNS, best, about, tuple(notes)),
        Findings("syntax-readings", f"{title}, by reading", _COLUMNS, by_reading, about, tuple(notes)),
        Findings("syntax-heads", f"Accuracy of every head of {about.model}", _HEAD_COLUMNS, every, about),
    )


def _heads(relation: Relation) -> list[dict[str, Cell]]:
    halves = {"accuracy": "all", "accuracy_even": "even", "accuracy_odd": "odd"}
    tables = {name: relation.accuracy(half) for name, half in halves.items()}
    return [
        {"relation": relation.name, "reading": reading, "part": part, "layer": layer, "head": head}
        | {name: float(table[which, index]) for name, table in tables.items()}
        for which, reading in enumerate(READINGS)
        for index, (part, layer, head) in enumerate(relation.heads)
    ]
