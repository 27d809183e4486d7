"""Sums over the texts of many calls: what a head does on the whole, in memory that does not grow with their number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from heedmap.capture.session import Call
from heedmap.errors import InputError
from heedmap.measurements import Measurements, Quantity, Ratio

Array = np.ndarray[Any, Any]


class Sums:
    """Adds calls up, one for each part and layer, in a list of calls that it keeps current.

    The result has a batch of one, and over all texts of all passes:

    * by head, for each statistic of rows that has a mean: that mean over every row that counts, `[1, head]` (rows of
      padding, rows that may see nothing, and NaN are left out), with `NAME_sum` and `NAME_rows`; for a largest value
      the largest;
    * by distance, `distance_profile` and `distance_pairs` added up, and their ratio;
    * by key position in its own text, padding left out: `received` and `rows_that_may_see` added up, and their ratio;
    * `texts`, how many texts there were.

    What belongs to one text alone (each row's value, the map, the place of the largest weight) is left out.
    """

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls
        self._places: dict[tuple[str, int], int] = {}

    def add(self, call: Call) -> None:
        """Take one call."""
        found = pooled(call)
        key = (call.part, call.layer)
        if key not in self._places:
            self._places[key] = len(self._calls)
            self._calls.append(replace(call, measurements=found, token_ids=None))
            return
        before = self._calls[self._places[key]]
        if before.heads != call.heads:
            raise InputError(
                "watch", expected=f"the same heads of {call.part} {call.layer} in every pass", got="others"
            )
        self._calls[self._places[key]] = replace(call, measurements=_sum(before.measurements, found), token_ids=None)


def pooled(call: Call) -> Measurements:
    """One call's measurements over all its texts and rows, as `Sums` describes them."""
    measurements = call.measurements
    valid = np.asarray(measurements["row_valid"])
    some = np.asarray(measurements["row_sum"]) > 0
    quantities: dict[str, Quantity] = {"texts": _by_head(np.full((1, 1), len(valid)), "texts", "sum")}
    ratios: dict[str, Ratio] = {}
    for name, quantity in measurements.quantities.items():
        if quantity.over_rows != "none":
            counts = np.isfinite(quantity.values)
            rows = (valid[:, None] & some).reshape(*some.shape, *(1,) * (counts.ndim - 3))
            counts &= rows
            values = np.where(counts, quantity.values, 0).astype(np.float64)
            if quantity.over_rows == "max":
                largest = np.where(counts, quantity.values, -np.inf).max((0, 2))[None]
                quantities[name] = _by_head(largest, quantity.unit, "max", quantity)
                continue
            quantities[f"{name}_sum"] = _by_head(values.sum((0, 2))[None], quantity.unit, "sum", quantity)
            quantities[f"{name}_rows"] = _by_head(counts.sum((0, 2))[None], "rows", "sum", quantity)
            ratios[name] = Ratio(f"{name}_sum", f"{name}_rows", quantity.unit)
        elif quantity.axis == "key" and quantity.reduction == "sum":
            quantities[name] = replace(quantity, values=_from_first_key(call, quantity.values))
        elif quantity.axis == "distance" and quantity.reduction == "sum":
            quantities[name] = replace(quantity, values=quantity.values.sum(0, keepdims=True))
    if "distances" in measurements:
        quantities["distances"] = measurements.quantities["distances"]
    ratios |= {name: ratio for name, ratio in measurements.ratios.items() if {ratio.numerator, ratio.denominator} <=
               set(quantities)}  # fmt: skip
    return Measurements(quantities, ratios, measurements.kernel)


def _by_head(values: Array, unit: str, reduction: str, like: Quantity | None = None) -> Quantity:
    further = () if like is None else like.axes[3:]
    labels = () if like is None else like.labels
    assert reduction in ("sum", "max")
    return Quantity(values, ("batch", "head", *further), "head", unit, "sum" if reduction == "sum" else "max", labels)


def _from_first_key(call: Call, values: Array) -> Array:
    """`[batch, head, key]` added up over texts, each from its own first key that some row may see."""
    seen = np.asarray(call.measurements["rows_that_may_see"]) if "rows_that_may_see" in call.measurements else None
    total = np.zeros((1, *values.shape[1:]), dtype=values.dtype)
    for item, text in enumerate(values):
        first = 0 if seen is None else int(np.argmax(seen[item].any(0)))
        total[0, :, : text.shape[-1] - first] += text[:, first:]
    return total


def _sum(left: Measurements, right: Measurements) -> Measurements:
    quantities: dict[str, Quantity] = {}
    if set(left.quantities) != set(right.quantities):
        raise InputError("watch", expected="the same statistics in every pass", got="others")
    span = None
    if "distances" in left.quantities:
        first = min(left["distances"][0], right["distances"][0])
        last = max(left["distances"][-1], right["distances"][-1])
        span = np.arange(first, last + 1)
    for name, one in left.quantities.items():
        other = right.quantities[name]
        if name == "distances":
            assert span is not None
            quantities[name] = replace(one, values=span)
            continue
        if one.axis == "distance":
            assert span is not None
            values = np.add(
                *(_placed(part[name], int(part["distances"][0] - span[0]), len(span)) for part in (left, right))
            )
        elif one.axis == "key":
            length = max(one.values.shape[-1], other.values.shape[-1])
            values = np.add(*(_placed(part.values, 0, length) for part in (one, other)))
        else:
            values = one.values + other.values if one.reduction == "sum" else np.maximum(one.values, other.values)
        quantities[name] = replace(one, values=np.asarray(values))
    kernels = dict.fromkeys([*left.kernel.split("+"), *right.kernel.split("+")])
    return Measurements(quantities, left.ratios, "+".join(kernels))


def _placed(values: Array, start: int, length: int) -> Array:
    """Values in a longer last dimension, zeros around them."""
    wide = np.zeros((*values.shape[:-1], length), dtype=values.dtype)
    wide[..., start : start + values.shape[-1]] = values
    return wide
