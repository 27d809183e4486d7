"""Texts that show what a statistic's values mean: those at either end, and one at each decile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from heedmap.sets.columns import numbers_in, values_in
from heedmap.sets.schema import DECILES, HEADS, SAMPLE
from heedmap.sets.shards import Shard, shard_files
from heedmap.sets.sums import Sums
from heedmap.sets.totals import head_columns, named

Array = np.ndarray[Any, Any]


def tops(sums: Sums) -> pa.Table:
    """One row a head, value, side and rank: the texts with the highest and the lowest values, exact over all texts."""
    parts = []
    for end, name in (("high", "highest"), ("low", "lowest")):
        texts = sums.arrays[f"{end}_text"]
        value, head, rank = np.nonzero(texts >= 0)
        parts.append(
            pa.table(
                head_columns(sums, head)
                | {
                    "statistic": named(sums.values, value),
                    "side": pa.array([name] * len(rank), pa.string()),
                    "rank": pa.array(rank + 1, pa.int32()),
                    "value": pa.array(sums.arrays[end][value, head, rank]),
                    "text": pa.array(texts[value, head, rank]),
                }
            )
        )
    return pa.concat_tables(parts)


def deciles(folder: Path, shards: Sequence[Shard], sums: Sums) -> pa.Table:
    """One row a head, value and decile: the text at that rank and its value.

    Of m values in order, decile d is the one at rank round(d/10 · (m − 1)). Up to 65,536 texts all take part, beyond
    that a sample of so many by the hash of their number, the same for every head and in every run.
    """
    chosen = _sample(folder, shards, len(sums.heads))
    parts: list[pa.Table] = []
    for name in sums.values:
        values, texts = _column(folder, shards, name, len(sums.heads), chosen)
        order = np.argsort(values, axis=1, kind="stable")  # NaN last
        count = np.isfinite(values).sum(1)
        ranks = np.rint(np.array(DECILES) / 10 * np.maximum(count - 1, 0)[:, None]).astype(np.int64)
        at = np.take_along_axis(order, ranks, 1)
        head, decile = np.nonzero(np.broadcast_to(count[:, None] > 0, at.shape))
        parts.append(
            pa.table(
                head_columns(sums, head)
                | {
                    "statistic": pa.array([name] * len(head), pa.string()),
                    "decile": pa.array(np.array(DECILES)[decile], pa.int32()),
                    "value": pa.array(values[head, at[head, decile]].astype(np.float64)),
                    "text": pa.array(texts[at[head, decile]]),
                }
            )
        )
    return pa.concat_tables(parts)


def _sample(folder: Path, shards: Sequence[Shard], heads: int) -> Array:
    """The numbers of the texts that take part, ascending."""
    held: Array = np.empty(0, dtype=np.int64)
    for shard in shards:
        held = np.concatenate([held, numbers_in(folder / shard_files(shard.number)[HEADS], heads)])
        if len(held) > 2 * SAMPLE:
            held = _drawn(held)
    return np.sort(_drawn(held))


def _drawn(texts: Array) -> Array:
    if len(texts) <= SAMPLE:
        return texts
    return texts[np.argsort(_hash(texts), kind="stable")[:SAMPLE]]


def _hash(numbers: Array) -> Array:
    """A number for each number that looks random (splitmix64, Steele, Lea, Flood 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _column(folder: Path, shards: Sequence[Shard], name: str, heads: int, chosen: Array) -> tuple[Array, Array]:
    """One value of the chosen texts, float32 `[heads, texts]`, and their numbers."""
    columns, numbers = [], []
    for shard in shards:
        file = folder / shard_files(shard.number)[HEADS]
        own = numbers_in(file, heads)
        keep = np.isin(own, chosen)
        if keep.any():
            columns.append(values_in(file, name, heads)[:, keep])
            numbers.append(own[keep])
    return np.concatenate(columns, 1), np.concatenate(numbers)
