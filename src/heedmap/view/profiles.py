"""The profiles of every head at a width that a page can draw: what a file within a size holds for want of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from safetensors.numpy import save

from heedmap.runs.manifest import LayerInfo
from heedmap.runs.reader import Run

BINS = 256
PER_OCTAVE = 8
"""Bins of distance from each power of two to the next; the first distances have one each."""

Array = np.ndarray[Any, Any]


def profiles(run: Run) -> bytes:
    """Entropy along the text, received weight along the text and weight by distance, pooled, as safetensors.

    Bins split the positions of a layer as `numpy.array_split` does, at most 256 of them, so that for a short text each
    holds one position. For each layer `PART.LAYER`:

    - `.entropy`, `.received`, float16 `[heads, 2, bins]`: the lowest and the highest entropy of the queries, and
      `received_mean` of the keys, in each bin; NaN where it has none.
    - `.received_at`, int32 `[heads, bins]`: text position of that highest key; −1 where there is none.
    - `.seen`, int32 `[bins]`: the most rows that may see one of its keys.
    - `.distance`, float32 `[heads, 2, distances]`: mean weight over the allowed pairs of each bin of distances, looking
      back and looking ahead; NaN where there is no such pair.

    `distances`, int32: the first distance of each bin, and the end of the last. What was not measured is absent.
    """
    first = _distances(max(max(info.query_len, info.key_len) for info in run.layers))
    tensors: dict[str, Array] = {"distances": first}
    for info in run.layers:
        name = f"{info.part}.{info.layer}"
        if _measured(run, "entropy"):
            parts = [_entropy(run, info, head) for head in info.heads]
            tensors[f"{name}.entropy"] = np.stack(parts).astype(np.float16)
        if _measured(run, "received_mean", "rows_that_may_see"):
            values, at, seen = zip(*(_received(run, info, head) for head in info.heads), strict=True)
            tensors[f"{name}.received"] = np.stack(values).astype(np.float16)
            tensors[f"{name}.received_at"] = np.stack(at).astype(np.int32)
            tensors[f"{name}.seen"] = np.max(seen, axis=0).astype(np.int32)
        if not info.cross and _measured(run, "distance_profile", "distance_pairs"):
            each = [_distance(run, info, head, first) for head in info.heads]
            tensors[f"{name}.distance"] = np.stack(each).astype(np.float32)
    return save(tensors)


def _measured(run: Run, *names: str) -> bool:
    return all(name in run.meta["statistics"] for name in names)


def _columns(run: Run, table: str, info: LayerInfo, head: int, *names: str) -> tuple[Array, ...]:
    found = run.table(table, layer=info.layer, head=head, part=info.part, columns=names)
    return tuple(found.column(name).to_numpy().astype(np.float64) for name in names)


def _bins(positions: Array, offset: int, length: int) -> tuple[Array, int]:
    """The bin of each text position, and how many there are."""
    count = min(BINS, length)
    starts = np.array([part[0] for part in np.array_split(np.arange(length), count)])
    return np.searchsorted(starts, positions - offset, side="right") - 1, count


def _extremes(values: Array, bins: Array, count: int) -> Array:
    """`[2, count]`: the lowest and the highest finite value of each bin, NaN where there is none."""
    finite = np.isfinite(values)
    found = np.array([np.full(count, np.inf), np.full(count, -np.inf)])
    np.minimum.at(found[0], bins[finite], values[finite])
    np.maximum.at(found[1], bins[finite], values[finite])
    found[:, np.isinf(found[0])] = np.nan
    return found


def _entropy(run: Run, info: LayerInfo, head: int) -> Array:
    position, entropy = _columns(run, "query", info, head, "position", "entropy")
    return _extremes(entropy, *_bins(position, info.query_offset, info.query_len))


def _received(run: Run, info: LayerInfo, head: int) -> tuple[Array, Array, Array]:
    names = ("position", "received_mean", "rows_that_may_see")
    position, mean, rows = _columns(run, "key", info, head, *names)
    bins, count = _bins(position, info.key_offset, info.key_len)
    found = _extremes(mean, bins, count)
    at = np.full(count, -1.0)
    highest = mean == found[1][bins]
    at[bins[highest][::-1]] = position[highest][::-1]  # of equal ones the first
    seen = np.zeros(count)
    np.maximum.at(seen, bins, rows)
    return found, at, seen


def _distances(longest: int) -> Array:
    steps = 2 ** (np.arange(PER_OCTAVE * (int(np.ceil(np.log2(max(2, longest)))) + 1) + 1) / PER_OCTAVE)
    first = np.unique(np.rint(steps).astype(np.int32))
    return first[: np.searchsorted(first, longest) + 1]


def _distance(run: Run, info: LayerInfo, head: int, first: Array) -> Array:
    distance, mass, pairs = _columns(run, "distance", info, head, "distance", "distance_profile", "distance_pairs")
    found = np.full((2, len(first) - 1), np.nan)
    for row, sign in enumerate((1, -1)):
        some = (sign * distance > 0) & (pairs > 0)
        bins = np.searchsorted(first, sign * distance[some], side="right") - 1
        size = len(first) - 1
        sums, counts = (np.bincount(bins, weights=values[some], minlength=size) for values in (mass, pairs))
        np.divide(sums, counts, out=found[row], where=counts > 0)
    return found
