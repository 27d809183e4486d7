"""What a sweep found: named NumPy arrays with axes and units, which merge with the results of other query rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from heedmap.errors import InputError

Axis = Literal["query", "key", "distance", "cell", "head"]
Reduction = Literal["row", "sum", "max", "fixed"]

DIMENSIONS: dict[Axis, tuple[str, ...]] = {
    "query": ("batch", "head", "query"),
    "key": ("batch", "head", "key"),
    "distance": ("batch", "head", "distance"),
    "cell": ("batch", "head", "query_cell", "key_cell"),
    "head": ("batch", "head"),
}
"""Dimensions of a statistic of each axis; a dimension of size 1 holds for all heads."""


class UnknownNameError(InputError, KeyError):
    """A statistic that was not measured; a KeyError too, so that `get` works as for any mapping."""


@dataclass(frozen=True)
class Quantity:
    """One statistic's values: `values` with dimensions `axes`, grouped by `axis`, in `unit`."""

    values: np.ndarray
    axes: tuple[str, ...]
    axis: Axis
    unit: str
    reduction: Reduction
    """How parts merge: each row measured once (`row`), added, the larger one, or equal in both parts (`fixed`)."""
    labels: tuple[str, ...] = ()
    """Names along the last dimension, where it is one of names: spans, classes."""
    over_rows: Literal["mean", "max", "none"] = "none"
    """How a value of each query row becomes one value of a head; NaN is left out."""


@dataclass(frozen=True)
class Ratio:
    """A quantity that is one sum divided by another, so that parts can merge before dividing; 0 / 0 is 0."""

    numerator: str
    denominator: str
    unit: str


@dataclass(frozen=True)
class Measurements(Mapping[str, np.ndarray]):
    """Statistics of one attention call by name: `m["entropy"]` is `[batch, head, query]`.

    Values of query rows that were left out (padding, or rows outside `rows`) are NaN, or −1 for integers.
    """

    quantities: Mapping[str, Quantity]
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    kernel: str = ""
    """The kernel that made these results."""
    rows: tuple[tuple[int, int], ...] = ()
    """Query rows measured, as sorted `(start, stop)` spans."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.quantity(name).values

    def __iter__(self) -> Iterator[str]:
        yield from self.quantities
        yield from self.ratios

    def __len__(self) -> int:
        return len(self.quantities) + len(self.ratios)

    def quantity(self, name: str) -> Quantity:
        """Values, axes and unit of one statistic; raises InputError with the names that there are."""
        if name in self.quantities:
            return self.quantities[name]
        if name in self.ratios:
            return self._divide(self.ratios[name])
        raise UnknownNameError(
            "Measurements", expected=f"one of {', '.join(self)}", got=repr(name), do="measure it by name"
        )

    def axes(self, name: str) -> tuple[str, ...]:
        """Names of the dimensions of one statistic."""
        return self.quantity(name).axes

    def unit(self, name: str) -> str:
        """Unit of one statistic: nats, tokens, weight, rows …"""
        return self.quantity(name).unit

    def __contains__(self, name: object) -> bool:
        return name in self.quantities or name in self.ratios

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(self[name].shape)}" for name in self)
        return f"Measurements(kernel={self.kernel!r}, rows={list(self.rows)}, {shapes})"

    def _divide(self, ratio: Ratio) -> Quantity:
        over, under = self.quantities[ratio.numerator], self.quantities[ratio.denominator]
        values = np.zeros(np.broadcast_shapes(over.values.shape, under.values.shape))
        np.divide(over.values, under.values, out=values, where=under.values != 0)
        return Quantity(values, over.axes, over.axis, ratio.unit, "fixed")

    def merge(self, other: Measurements) -> Measurements:
        """Results of the query rows of both parts of one call, or of the texts of both where they are `pooled`, as if
        measured at once (but for rounding).

            total = first.pooled().merge(second.pooled())       # passes over different texts

        `watch(…, passes="summed")` does this for every pass.

        Raises:
            InputError: the parts have rows in common, or are not parts of one call with the same statistics; one of
                them is pooled.
        """
        from heedmap.pooling import added, is_pooled

        if not isinstance(other, Measurements):
            raise InputError("merge", expected="Measurements of other query rows", got=type(other).__name__)
        if is_pooled(self) != is_pooled(other):
            raise InputError("merge", expected="both parts pooled, or none", got="one", do="pool the other: m.pooled()")
        if is_pooled(self):
            return added(self, other)
        if set(self) != set(other):
            different = sorted(set(self) ^ set(other))
            raise InputError("merge", expected="parts with the same statistics", got=f"{different} in one of them only")
        rows = _joined(self.rows, other.rows)
        merged = {
            name: _merge(name, part, other.quantities[name], other.rows) for name, part in self.quantities.items()
        }
        kernels = dict.fromkeys([*self.kernel.split("+"), *other.kernel.split("+")])
        return Measurements(merged, self.ratios, "+".join(kernels), rows)

    def pooled(self) -> Measurements:
        """These results over all texts and rows of the call, which `merge` adds up with those of other texts.

        The result has a batch of one:

        * by head, for each statistic of rows that has a mean: that mean over every row that counts, `[1, head]` (rows
          of padding, rows that may see nothing, and NaN are left out), with `NAME_sum` and `NAME_rows`; for a largest
          value the largest;
        * by distance, `distance_profile` and `distance_pairs` added up, and their ratio;
        * by key position in its own text, padding left out: `received` and `rows_that_may_see` added up, and their
          ratio;
        * `texts`, how many texts there were.

        What belongs to one text alone (each row's value, the map, the place of the largest weight) is left out.

        Raises:
            InputError: measurements of some of the rows only.
        """
        from heedmap.pooling import pooled

        return pooled(self)


def _joined(left: tuple[tuple[int, int], ...], right: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, stop in sorted([*left, *right]):
        if joined and start < joined[-1][1]:
            raise InputError(
                "merge",
                expected="parts that measured different query rows",
                got=f"rows {start} to {min(stop, joined[-1][1]) - 1} in both",
                do="add up passes over different texts by first.pooled().merge(second.pooled()), or watch them with "
                "passes='summed'",
            )
        if joined and start == joined[-1][1]:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)


def _merge(name: str, left: Quantity, right: Quantity, right_rows: tuple[tuple[int, int], ...]) -> Quantity:
    if left.values.shape != right.values.shape:
        raise InputError(
            "merge",
            expected=f"{name} of one shape",
            got=f"{list(left.values.shape)} and {list(right.values.shape)}",
            do="measure parts of one call with rows=(start, stop)",
        )
    match left.reduction:
        case "sum":
            values = left.values + right.values
        case "max":
            values = np.maximum(left.values, right.values)
        case "row":
            values = left.values.copy()
            before = (slice(None),) * left.axes.index("query")
            for start, stop in right_rows:
                values[(*before, slice(start, stop))] = right.values[(*before, slice(start, stop))]
        case "fixed":
            if not np.array_equal(left.values, right.values):
                raise InputError("merge", expected=f"the same {name} in both parts", got="different ones")
            values = left.values
    return replace(left, values=values)
