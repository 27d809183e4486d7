"""What the viewer shows of every head at once, computed from a run: small maps, and what each head does."""

from __future__ import annotations

import json
import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from safetensors.numpy import save

from heedmap.errors import InputError
from heedmap.heads.evidence import type_heads
from heedmap.heads.telling import head_scores, head_to_show, telling_heads
from heedmap.heads.types import TYPES
from heedmap.runs.manifest import LayerInfo
from heedmap.runs.reader import Run

THUMBNAIL = 64

Array = np.ndarray[Any, Any]

_known: WeakKeyDictionary[Run, dict[str, Array]] = WeakKeyDictionary()
"""Scores of open runs: two files are computed from them."""


def thumbnails(run: Run) -> bytes:
    """Every head's mean map at 64×64 or less, as safetensors.

    For each layer `PART.LAYER`, uint8 `[heads, rows, keys]`: the square root of mean / top, times 255, where `top` is
    the head's largest cell, and `PART.LAYER.top`, float32 `[heads]`. Layers without a map are absent.
    """
    tensors: dict[str, Array] = {}
    for info in run.layers:
        maps = _maps(run, info)
        if maps is None:
            continue
        means, areas = maps
        shape = (info.query_len, info.key_len)
        small = np.stack([_shrunk(mean, area, shape) for mean, area in zip(means, areas, strict=True)])
        tops = small.max(axis=(1, 2), initial=0.0)
        shares = small / np.where(tops > 0, tops, 1.0)[:, None, None]
        tensors[f"{info.part}.{info.layer}"] = np.rint(255 * np.sqrt(shares)).astype(np.uint8)
        tensors[f"{info.part}.{info.layer}.top"] = tops.astype(np.float32)
    return save(tensors)


def heads(run: Run) -> bytes:
    """What each head does, as JSON: `scores` (kind → one number per head, in the order of the run's heads, null where
    it has no meaning) and `show` (the head to open first)."""
    found = _scores(run)
    show = head_to_show(telling_heads(run, scores=found))
    scores = {kind: _plain(values) for kind, values in found.items()}
    return json.dumps({"scores": scores, "show": show}, separators=(",", ":")).encode()


def types(run: Run) -> bytes:
    """Of which types each head is, as JSON: `types` (for every head a list, strongest first), `values` (type → one
    number per head), `says` (type → what such a head looks at), `unjudged` (type → why no head was held against it)."""
    typing = type_heads(run, _scores(run))
    names = {name for head in typing.heads for name in head.values}
    told = {
        "types": [head.types for head in typing.heads],
        "values": {
            name: _plain(np.array([head.values.get(name, np.nan) for head in typing.heads])) for name in sorted(names)
        },
        "says": {name: kind.says for name, kind in TYPES.items()},
        "unjudged": dict(typing.unjudged),
    }
    return json.dumps(told, separators=(",", ":")).encode()


def _scores(run: Run) -> dict[str, Array]:
    if run not in _known:
        _known[run] = head_scores(run)
    return _known[run]


def _plain(values: Array) -> list[float | None]:
    return [round(value, 6) if math.isfinite(value) else None for value in values.tolist()]


def _maps(run: Run, info: LayerInfo) -> tuple[list[Array], list[Array]] | None:
    try:
        means = [run.map(info.layer, head, part=info.part) for head in info.heads]
    except InputError:  # a run without the statistic
        return None
    try:
        areas = [run.map(info.layer, head, kind="area", part=info.part) for head in info.heads]
    except InputError:
        areas = [np.ones_like(mean) for mean in means]
    return means, areas


def _shrunk(mean: Array, area: Array, shape: tuple[int, int]) -> Array:
    """A map of `shape` (query_len, key_len) in at most 64×64 cells of one size.

    The cells of a run's map differ in size by one position; where one lies across an edge of the new cells, its sum
    is shared by length. Means stay means over the weights that the areas count.
    """
    weight = np.where(np.isfinite(mean), area, 0).astype(np.float64)
    rows, keys = (_shares(length, parts) for length, parts in zip(shape, mean.shape, strict=True))
    total = rows @ (np.where(weight > 0, mean, 0.0) * weight) @ keys.T
    count = rows @ weight @ keys.T
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)


def _shares(length: int, parts: int) -> Array:
    """`[new, parts]`: which share of each of the map's cells lies in each new cell."""
    edges = np.linspace(0, length, min(THUMBNAIL, parts) + 1)
    size, more = divmod(length, parts)
    sizes = np.full(parts, size)
    sizes[:more] += 1
    stops = np.cumsum(sizes)
    starts = stops - sizes
    overlap = np.minimum(edges[1:, None], stops) - np.maximum(edges[:-1, None], starts)
    return np.clip(overlap, 0, None) / sizes
