"""What each head does in each text of a batch: the numbers of a run's head table and of the types of head.

The rules are those of `heedmap.heads.telling` and `heedmap.heads.evidence`, over a batch at once: a text's numbers are
those of its own run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heedmap.capture.session import Call
from heedmap.heads.evidence import hides_ahead
from heedmap.heads.types import NEAR, SHORT, TYPES
from heedmap.textsets.prepared import Prepared

Array = np.ndarray[Any, Any]


class Marks:
    """What is known of the tokens of a batch: `lengths [B]`, `special`, `punctuation [B, N]`, `kinds [B, N]` (−1 for
    padding)."""

    def __init__(self, texts: Sequence[Prepared]) -> None:
        longest = max(map(len, texts))
        self.lengths = np.array([len(text) for text in texts])
        self.special = np.zeros((len(texts), longest), dtype=bool)
        self.punctuation = np.zeros((len(texts), longest), dtype=bool)
        self.kinds = np.full((len(texts), longest), -1)
        for at, text in enumerate(texts):
            self.special[at, : len(text)] = text.special
            self.punctuation[at, : len(text)] = text.punctuation
            self.kinds[at, : len(text)] = text.kinds


def head_values(call: Call, marks: Marks) -> dict[str, Array]:
    """Name → float64 `[texts, heads]`, NaN where a value has no meaning in a text.

    First the statistics of rows, as the mean (or the largest) over rows that may attend to something and have a finite
    value; then what the types of head go by.
    """
    found = _of_rows(call)
    found |= _near(call, marks)
    found |= _by_key(call, marks)
    found["positional"] = _positional(call, marks)
    entropy = found.get("entropy")
    if entropy is not None:
        told = (marks.lengths <= SHORT) & (np.log(np.maximum(marks.lengths, 1)) > TYPES["broad"].bar)
        found["broad"] = np.where(told[:, None], entropy, np.nan)
    return found


def units_of(call: Call) -> dict[str, str]:
    """Unit of each of the values."""
    found = {
        f"{name}_{label}" if label else name: quantity.unit
        for name, quantity in call.measurements.quantities.items()
        if quantity.over_rows != "none"
        for label in (quantity.labels if quantity.values.ndim > 3 else ("",))
    }
    return found | {name: kind.unit for name, kind in TYPES.items() if name not in found}


def counted_rows(call: Call) -> Array:
    """Rows that count and may attend to something: bool `[texts, heads, rows]`."""
    measured = call.measurements
    return measured["row_valid"][:, None] & (measured["row_sum"] > 0)


def _of_rows(call: Call) -> dict[str, Array]:
    found: dict[str, Array] = {}
    counted = counted_rows(call)
    for name, quantity in call.measurements.quantities.items():
        if quantity.over_rows == "none":
            continue
        further = quantity.values.ndim - 3
        values = quantity.values.reshape(*quantity.values.shape[:3], -1)
        finite = np.isfinite(values).all(-1) & counted
        rows = finite.sum(-1)
        for place, label in enumerate(quantity.labels if further else ("",)):
            own = values[..., place]
            with np.errstate(invalid="ignore"):
                if quantity.over_rows == "mean":
                    reduced = np.where(finite, own, 0).sum(-1, dtype=np.float64) / rows
                else:
                    reduced = np.where(finite, own, -np.inf).max(-1).astype(np.float64)
            found[f"{name}_{label}" if label else name] = np.where(rows > 0, reduced, np.nan)
    return found


def _near(call: Call, marks: Marks) -> dict[str, Array]:
    """Mean weight on the token before, after and itself, and the weight at most 5 tokens away."""
    profile = call.measurements["distance_profile"]
    pairs = call.measurements["distance_pairs"]
    zero = int(np.flatnonzero(call.measurements["distances"] == 0)[0])
    causal = looks_back_only(call)
    own, rows = _own(call), counted_rows(call).sum(-1)
    found: dict[str, Array] = {}
    for name, distance in (("previous", 1), ("next", -1)):
        at = zero + distance
        inside = 0 <= at < profile.shape[-1]
        found[name] = _ratio(profile[..., at], pairs[..., at]) if inside else np.full(rows.shape, np.nan)
    found["self"] = _ratio(profile[..., zero] - np.where(causal, own, 0.0), pairs[..., zero] - np.where(causal, 1, 0))
    near = profile[..., max(0, zero - NEAR) : zero + NEAR + 1].sum(-1)
    told = marks.lengths[:, None] > 4 * (2 * NEAR + 1)
    found["local"] = np.where(told, _ratio(near, rows), np.nan)
    return found


def looks_back_only(call: Call) -> Array:
    """Whether no row of a text may look ahead, bool `[texts, 1 or heads]`."""
    ahead = call.measurements["distances"] < 0
    return call.measurements["distance_pairs"][..., ahead].sum(-1) == 0


def _own(call: Call) -> Array | float:
    """What the first row of a causal layer puts on the only token that it may see."""
    if call.formula.sinks is None:
        return 1.0
    return call.measurements["row_mass"][..., 0].astype(np.float64)


def _ratio(over: Array, under: Array) -> Array:
    over, under = np.broadcast_arrays(over, under)
    return np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0)


def _by_key(call: Call, marks: Marks) -> dict[str, Array]:
    """Mean weight on the first token, later special ones, punctuation, and the most attended key."""
    received = call.measurements["received"]  # [texts, heads, keys]
    seen_by = call.measurements["rows_that_may_see"]  # [texts, 1 or heads, keys]
    causal = looks_back_only(call)
    seen = seen_by > 0
    position = np.arange(seen.shape[-1])
    first = seen.argmax(-1)[..., None]
    less = np.where(causal, _own(call), 0.0)
    heads = np.broadcast_to(first, (*received.shape[:2], 1))
    found = {
        "first": _ratio(
            np.take_along_axis(received, heads, -1)[..., 0] - less,
            np.take_along_axis(seen_by, first, -1)[..., 0] - np.where(causal, 1, 0),
        )
    }
    later = marks.special[:, None] & seen & (position > first)
    found["separator"] = _on(received, seen_by, later, causal)
    back = np.full_like(causal, hides_ahead(call.formula.mask))
    found["punctuation"] = _on(received, seen_by, marks.punctuation[:, None] & seen, back)
    enough = seen & (2 * seen_by >= seen_by.max(-1, keepdims=True))
    means = np.divide(
        received, seen_by, out=np.full(received.shape, -np.inf), where=np.broadcast_to(enough, received.shape)
    )
    found["sink"] = np.where(enough.any(-1), means.max(-1), np.nan)
    return found


def _on(received: Array, seen_by: Array, keys: Array, causal: Array) -> Array:
    """Mean weight on some keys, over the rows that may see any of them."""
    mass = np.where(keys, received, 0.0).sum(-1)
    rows = np.where(
        causal,
        _covered(keys, seen_by),
        np.minimum(seen_by.max(-1), np.where(keys, seen_by, 0).sum(-1)),
    )
    return _ratio(mass, rows)


def _covered(keys: Array, seen_by: Array) -> Array:
    """Rows that see any of these keys where key k is seen by rows k, k + 1, …: the union of those spans."""
    texts, heads, length = keys.shape
    steps = np.zeros((texts, heads, 2 * length + 1), dtype=np.int64)
    text, head, key = np.nonzero(keys)
    np.add.at(steps, (text, head, key), 1)
    np.add.at(steps, (text, head, key + seen_by[text, head, key]), -1)
    return (steps.cumsum(-1) > 0).sum(-1)


def _positional(call: Call, marks: Marks) -> Array:
    """Share of rows whose largest weight is on the token before, or, where rows look ahead, on the one after."""
    largest = call.measurements["argmax"]  # [texts, heads, rows]
    position = np.arange(largest.shape[-1])
    seeing = largest >= 0
    back = seeing & (position > 0)
    rows_back = back.sum(-1)
    share = _ratio(((largest == position - 1) & back).sum(-1), rows_back)
    if not hides_ahead(call.formula.mask):
        ahead = seeing & (position < marks.lengths[:, None, None] - 1)
        share = np.fmax(share, _ratio(((largest == position + 1) & ahead).sum(-1), ahead.sum(-1)))
    return np.where(rows_back >= 2, share, np.nan)
