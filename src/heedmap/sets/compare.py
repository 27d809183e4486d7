"""What changed between two sets of the same texts: each head's change, text by text, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heedmap.errors import InputError
from heedmap.heads.student import student_quantile
from heedmap.sets.columns import column
from heedmap.sets.reader import TextSet
from heedmap.sets.schema import HEADS, TEXTS

Array = np.ndarray[Any, Any]
WHERE = "compare"


@dataclass(frozen=True)
class Change:
    """How one value of one head changed from the first set to the second.

    Attributes:
        before, after: its means over the texts that have it in both.
        change: after − before; `low`, `high` its 95 % interval, Student's t over the texts' own changes.
        effect: the change in standard deviations of the value over texts, that of both sets pooled.
        texts: how many texts have the value in both.
    """

    part: str
    layer: int
    head: int
    statistic: str
    texts: int
    before: float
    after: float
    change: float
    low: float
    high: float
    effect: float

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Comparison:
    """Changes, the clearest first: those whose interval leaves out 0, by the size of their effect, then the others.

    `texts` is how many texts both sets measured; `only` names texts, heads and statistics that one of them alone has.
    """

    changes: tuple[Change, ...]
    texts: int
    only: tuple[str, ...]

    @property
    def by_chance(self) -> float:
        """How many changes would be told apart from 0 by chance alone, at 95 %, if there were none."""
        return 0.05 * len(self.changes)


def compare(before: TextSet, after: TextSet, statistics: list[str] | None = None) -> Comparison:
    """Compare two sets over the texts that both measured: two models, or two checkpoints of one.

    Texts are known for the same by their sha256, the n-th copy of a text in one set for the n-th copy in the other.
    Heads are known by part, layer and number.

    Args:
        statistics: only these values; None for all that both sets have.

    Raises:
        InputError: no text, head or value in common; a value that is not in both.
        RunError: a set that is damaged.
    """
    names = [name for name in before.values if name in after.values]
    for name in statistics or ():
        if name not in names:
            raise InputError(WHERE, expected=f"a value of both sets among {', '.join(names)}", got=repr(name))
    heads = [head for head in before.heads if head in set(after.heads)]
    if not heads or not names:
        raise InputError(
            WHERE,
            expected="sets with heads and values in common",
            got=f"{len(before.heads)} heads and {len(after.heads)}, {len(heads)} of them in both",
        )
    left, right = _pairs(before, after)
    if len(left) == 0:
        raise InputError(
            WHERE,
            expected="sets that measured some of the same texts",
            got="none in common",
            do="scan the same texts with both models",
        )
    changes: list[Change] = []
    own, theirs = ([one.heads.index(head) for head in heads] for one in (before, after))
    for name in statistics or names:
        first = _of(before, name, left)[own]
        second = _of(after, name, right)[theirs]
        changes.extend(_changes(name, heads, first, second))
    changes.sort(key=lambda one: (not one.told_apart, -abs(one.effect), one.statistic, one.layer, one.head))
    return Comparison(tuple(changes), len(left), _only(before, after, len(left)))


def _pairs(before: TextSet, after: TextSet) -> tuple[Array, Array]:
    """The numbers in each set of the texts that both measured."""
    found: list[dict[tuple[str, int], int]] = []
    for one in (before, after):
        table = one.table(TEXTS, columns=["text", "sha256", "reason"])
        copies: dict[str, int] = {}
        places: dict[tuple[str, int], int] = {}
        for text, sha256, reason in zip(*(own.to_pylist() for own in table.columns), strict=True):
            if reason is None:
                copies[sha256] = copies.get(sha256, 0) + 1
                places[sha256, copies[sha256]] = text
        found.append(places)
    shared = [key for key in found[0] if key in found[1]]
    return np.array([found[0][key] for key in shared], np.int64), np.array([found[1][key] for key in shared], np.int64)


def _of(one: TextSet, name: str, texts: Array) -> Array:
    """A value in these texts, float64 `[heads, texts]`."""
    values, numbers = column(one.files(HEADS), name, len(one.heads))
    order = np.argsort(numbers)
    return values[:, order[np.searchsorted(numbers[order], texts)]].astype(np.float64)


def _changes(name: str, heads: list[tuple[str, int, int]], before: Array, after: Array) -> list[Change]:
    found = []
    for place, (part, layer, head) in enumerate(heads):
        both = np.isfinite(before[place]) & np.isfinite(after[place])
        count = int(both.sum())
        if not count:
            continue
        one, other = before[place, both], after[place, both]
        steps = other - one
        change = float(steps.mean())
        half = float("nan")
        if count > 1:
            half = student_quantile(count - 1) * float(steps.std(ddof=1)) / float(np.sqrt(count))
        spread = float(np.sqrt((one.var() + other.var()) / 2))
        effect = change / spread if spread > 0 else (0.0 if change == 0 else float("inf") * np.sign(change))
        found.append(
            Change(
                part, layer, head, name, count, float(one.mean()), float(other.mean()), change, change - half,
                change + half, float(effect),
            )
        )  # fmt: skip
    return found


def _only(before: TextSet, after: TextSet, both: int) -> tuple[str, ...]:
    told = []
    for which, one in (("first", before), ("second", after)):
        if one.meta["texts"] > both:
            told.append(f"{one.meta['texts'] - both:,} of the {one.meta['texts']:,} texts of the {which} set alone")
    for what, one, other in (
        ("heads", before.heads, after.heads),
        ("statistics", list(before.values), list(after.values)),
    ):
        for which, mine, theirs in (("first", one, other), ("second", other, one)):
            alone = [item for item in mine if item not in theirs]
            if alone:
                shown = ", ".join(f"{item[1]}.{item[2]}" if isinstance(item, tuple) else item for item in alone[:6])
                told.append(f"{len(alone)} {what} of the {which} set alone: {shown}{' …' if len(alone) > 6 else ''}")
    return tuple(told)
