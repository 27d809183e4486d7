"""Measurements over all texts and rows of a call, which add up with those of other texts: what a head does at large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from heedmap.errors import InputError
from heedmap.measurements import Measurements, Quantity, Ratio

Array = np.ndarray[Any, Any]
TEXTS = "texts"


def is_pooled(measurements: Measurements) -> bool:
    """Whether measurements are over texts, rather than of each."""
    return TEXTS in measurements.quantities


def pooled(measurements: Measurements) -> Measurements:
    """See `Measurements.pooled`."""
    if is_pooled(measurements):
        return measurements
    valid = np.asarray(measurements["row_valid"])
    if measurements.rows and measurements.rows != ((0, valid.shape[-1]),):
        raise InputError(
            "merge",
            expected=f"measurements of all {valid.shape[-1]} query rows to pool",
            got=f"rows {', '.join(f'{start} to {stop - 1}' for start, stop in measurements.rows)}",
            do="merge the parts of the call first",
        )
    some = np.asarray(measurements["row_sum"]) > 0
    quantities: dict[str, Quantity] = {TEXTS: _by_head(np.full((1, 1), len(valid)), "texts", "sum")}
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
            quantities[name] = replace(quantity, values=_from_first_key(measurements, quantity.values))
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


def _from_first_key(measurements: Measurements, values: Array) -> Array:
    """`[batch, head, key]` added up over texts, each from its own first key that some row may see."""
    seen = np.asarray(measurements["rows_that_may_see"]) if "rows_that_may_see" in measurements else None
    total = np.zeros((1, *values.shape[1:]), dtype=values.dtype)
    for item, text in enumerate(values):
        first = 0 if seen is None else int(np.argmax(seen[item].any(0)))
        total[0, :, : text.shape[-1] - first] += text[:, first:]
    return total


def added(left: Measurements, right: Measurements) -> Measurements:
    """Pooled measurements of both, as if their texts had been pooled at once (but for rounding).

    Raises:
        InputError: other statistics, heads, spans or classes in one of them.
    """
    quantities: dict[str, Quantity] = {}
    if set(left.quantities) != set(right.quantities):
        different = sorted(set(left.quantities) ^ set(right.quantities))
        raise InputError("merge", expected="parts with the same statistics", got=f"{different} in one of them only")
    span = None
    if "distances" in left.quantities:
        first = min(left["distances"][0], right["distances"][0])
        last = max(left["distances"][-1], right["distances"][-1])
        span = np.arange(first, last + 1)
    for name, one in left.quantities.items():
        other = right.quantities[name]
        _check_alike(name, one, other)
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


def _check_alike(name: str, one: Quantity, other: Quantity) -> None:
    if one.labels != other.labels:
        raise InputError(
            "merge", expected=f"{name} of the same names", got=f"{', '.join(one.labels)} and {', '.join(other.labels)}"
        )
    fixed = 2 if one.axis in ("key", "distance") else None
    if name != "distances" and one.values.shape[:fixed] != other.values.shape[:fixed]:
        raise InputError(
            "merge", expected=f"{name} of the same heads", got=f"{one.values.shape[1]} and {other.values.shape[1]}"
        )


def _placed(values: Array, start: int, length: int) -> Array:
    """Values in a longer last dimension, zeros around them."""
    wide = np.zeros((*values.shape[:-1], length), dtype=values.dtype)
    wide[..., start : start + values.shape[-1]] = values
    return wide
