"""What the calls of one layer add to the sums of a shard: by distance, by entropy, by kind of token, and the map."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from heedmap.capture.session import Call
from heedmap.sets.schema import CELLS, ENTROPY_BINS, ENTROPY_STEP, KINDS, STARTS
from heedmap.statistics.cells import Cells
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
    cells = call.measurements["map_sum"]
    total = np.zeros((cells.shape[1], CELLS, CELLS))
    for length in np.unique(lengths):
        own = np.flatnonzero(lengths == length)
        count = Cells(int(length), cells.shape[-1]).count
        table = cells[own[0], :, :count, :count] if len(own) == 1 else cells[own, :, :count, :count].sum(0)
        rows, keys = _overlaps(int(length), count)
        total += (rows @ table) @ keys
    return total


@cache
def _overlaps(length: int, count: int) -> tuple[Array, Array]:
    """What takes a map of a text of `length` tokens in `count` cells to 32 × 32 relative positions.

    Returns:
        `rows [32, count]`: the mean over the rows of each part, from sums over the rows of each cell.
        `keys [count, 32]`: how the mass on a cell's keys falls on the parts.
    """
    sizes = Cells(length, count).sizes().numpy()
    ends = np.concatenate([[0], np.cumsum(sizes)]) / length
    edges = np.arange(CELLS + 1) / CELLS
    shared = np.clip(
        np.minimum(ends[1:, None], edges[None, 1:]) - np.maximum(ends[:-1, None], edges[None, :-1]), 0, None
    )  # [count, 32]: the length that cell and part share
    return (shared * CELLS / sizes[:, None]).T.copy(), shared / (sizes[:, None] / length)
