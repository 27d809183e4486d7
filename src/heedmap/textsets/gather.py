"""What the calls of one layer add to the sums of a shard: by distance, by entropy, by kind of token, and the map."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from heedmap.capture.session import Call
from heedmap.sets.schema import CELLS, ENTROPY_BINS, ENTROPY_STEP, KINDS, STARTS
from heedmap.textsets.values import Marks, counted_rows

Array = np.ndarray[Any, Any]


def gather(call: Call, marks: Marks, sums: dict[str, Array], at: slice) -> None:
    """Add one call to the arrays of `Sums`; `at` are the places of its heads."""
    measured = call.measurements
    distances = measured["distances"]
    bins = np.searchsorted(STARTS, distances, side="right") - 1
    own, starts = np.unique(bins, return_index=True)
    for name, source in (("weight", "distance_profile"), ("pairs", "distance_pairs")):
        sums[name][at, own] += np.add.reduceat(measured[source].sum(0), starts, axis=-1)
    if "entropy" in measured:
        sums["rows"][at] += _histogram(measured["entropy"], counted_rows(call))
    of_kind = marks.kinds[..., None] == np.arange(len(KINDS))  # [texts, keys, kinds]
    for name, source in (("received", "received"), ("may_see", "rows_that_may_see")):
        sums[name][at] += np.einsum(
            "bhn,bnk->hk", measured[source], of_kind.astype(measured[source].dtype), optimize=True
        )
    sums["map"][at] += _maps(call, marks.lengths)


def _histogram(entropy: Array, counted: Array) -> Array:
    """Rows of each head by their entropy, int64 `[heads, bins]`."""
    heads = entropy.shape[1]
    counted = counted & np.isfinite(entropy)
    index = np.where(counted, entropy / ENTROPY_STEP, 0).astype(np.int64).clip(0, ENTROPY_BINS - 1)
    index += np.arange(heads)[:, None] * ENTROPY_BINS
    return np.bincount(index[counted], minlength=heads * ENTROPY_BINS).reshape(heads, ENTROPY_BINS)


def _maps(call: Call, lengths: Array) -> Array:
    """The sum over texts of the mean row of each thirty-second of a text, `[heads, 32, 32]` by relative position."""
    masses = call.measurements["part_mass"]  # [texts, heads, rows, 32], NaN in rows that are padding
    total = np.zeros((masses.shape[1], CELLS, CELLS))
    shared = np.unique(lengths)
    for length in shared:
        own = masses if len(shared) == 1 else masses[lengths == length, :, :length]
        own = own.sum(0, dtype=np.float64)
        total += (parts(int(length)).T * CELLS / length) @ own
    return total


@cache
def parts(length: int) -> Array:
    """How much of each token of a text lies in each thirty-second of it, `[length, 32]`; a token's shares sum to 1."""
    tokens = np.arange(length)[:, None] / length
    edges = np.arange(CELLS + 1) / CELLS
    shared = np.minimum(tokens + 1 / length, edges[None, 1:]) - np.maximum(tokens, edges[None, :-1])
    return np.clip(shared, 0, None) * length
