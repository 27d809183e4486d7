"""Attention the long way, in NumPy and float64: the whole table, from a mask that is a function of two positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heedmap.measurements import Measurements, Quantity, Ratio
from heedmap.runs.reader import Run
from heedmap.runs.writer import RunWriter

Array = np.ndarray[Any, Any]
ALL = {"kind": "all"}
CAUSAL = {"kind": "causal", "offset": 0}
TEXT = "The cat sat on the mat"


@dataclass(frozen=True)
class Layer:
    """One layer: its entry of run.json, its inputs as they are stored, what was measured, and the dense truth."""

    entry: dict[str, Any]
    query: Array
    key: Array
    dtype: str | None
    measurements: Measurements
    raw: Array
    scores: Array
    weights: Array


def bf16_bits(values: Array) -> Array:
    """float32 → the upper 16 bits, rounded to the nearest even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def make_layer(
    mask: dict[str, Any] = ALL,
    may: Callable[[int, int], bool] = lambda query, key: True,
    *,
    part: str = "self",
    layer: int = 0,
    query_heads: int = 4,
    key_heads: int = 2,
    heads: Sequence[int] | None = None,
    query_len: int = 12,
    key_len: int = 12,
    head_dim: int = 8,
    query_offset: int = 0,
    key_offset: int = 0,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Sequence[float] | None = None,
    valid: Array | None = None,
    cross: bool = False,
    dtype: str = "float32",
    offset: float = 0.0,
    map_size: int = 5,
    seed: int = 0,
    **entry: Any,
) -> Layer:
    """A layer with random inputs. `may(query position, key position)` is the mask; `offset` is added to all scores."""
    random = np.random.default_rng(seed)
    heads = list(range(query_heads)) if heads is None else list(heads)
    scale = head_dim**-0.5 if scale is None else scale
    query = random.standard_normal((query_heads, query_len, head_dim)) * 2
    key = random.standard_normal((key_heads, key_len, head_dim))
    query[..., 0], key[..., 0] = 1.0, key[..., 0] + offset / scale
    kind = None
    if dtype == "bf16":
        kind, query, key = "bf16", bf16_bits(query), bf16_bits(key)
        seen_query, seen_key = ((x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in (query, key))
    else:
        query, key = query.astype(dtype), key.astype(dtype)
        seen_query, seen_key = query.astype(np.float64), key.astype(np.float64)
    raw = np.einsum("hqd,hkd->hqk", seen_query, np.repeat(seen_key, query_heads // key_heads, 0))
    scores = raw * scale
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    q_at, k_at = np.arange(query_len) + query_offset, np.arange(key_len) + key_offset
    allowed = np.array([[may(int(q), int(k)) for k in k_at] for q in q_at])
    scores = np.where(allowed, scores, -np.inf)
    valid = np.ones(query_len, bool) if valid is None else valid
    logits = scores
    if sinks is not None:
        column = np.broadcast_to(np.array(sinks, np.float64)[:, None, None], (query_heads, query_len, 1))
        logits = np.concatenate([scores, column], -1)
    row_max = logits.max(-1)
    shift = np.where(np.isfinite(row_max), row_max, 0)[..., None]
    row_sum = np.exp(logits - shift).sum(-1)
    weights = np.exp(scores - shift) / np.where(row_sum == 0, 1, row_sum)[..., None]
    pick = np.array(heads)
    measurements = _measure(
        scores[pick], weights[pick], row_max[pick], row_sum[pick], allowed, valid, q_at, k_at, map_size, dtype, cross
    )
    described = {
        "part": part,
        "layer": layer,
        "module": f"encoder.layer.{layer}.attention",
        "query_heads": query_heads,
        "key_heads": key_heads,
        "heads": heads,
        "head_dim": head_dim,
        "query_len": query_len,
        "key_len": key_len,
        "query_offset": query_offset,
        "key_offset": key_offset,
        "scale": scale,
        "softcap": softcap,
        "sinks": None if sinks is None else list(sinks),
        "mask": mask,
        "cross": cross,
        "kernel": "dense",
    } | entry
    weights[:, ~valid], scores[:, ~valid], raw[:, ~valid] = np.nan, np.nan, np.nan
    return Layer(described, query, key, kind, measurements, raw, scores, weights)


def _measure(
    scores: Array,
    weights: Array,
    row_max: Array,
    row_sum: Array,
    allowed: Array,
    valid: Array,
    q_at: Array,
    k_at: Array,
    map_size: int,
    dtype: str,
    cross: bool,
) -> Measurements:
    number = np.float64 if dtype == "float64" else np.float32
    counted = weights * valid[None, :, None]
    pairs = allowed & valid[:, None]
    with np.errstate(all="ignore"):
        entropy = -np.where(weights > 0, weights * np.log(weights), 0).sum(-1)
        logsumexp = row_max + np.log(row_sum)
    distance = q_at[:, None] - k_at[None, :]
    rows: dict[str, tuple[Array, str]] = {
        "entropy": (entropy, "nats"),
        "max_weight": (weights.max(-1), "weight"),
        "argmax": (np.where(allowed.any(-1), scores.argmax(-1) + k_at[0], -1), "position"),
        "logsumexp": (logsumexp, "score"),
        "row_mass": (weights.sum(-1), "weight"),
        "row_max": (row_max, "score"),
        "row_sum": (row_sum, "weight"),
    }
    if not cross:
        rows["mean_distance"] = ((weights * distance).sum(-1), "tokens")
    quantities: dict[str, Quantity] = {}
    for name, (values, unit) in rows.items():
        kept = np.where(valid, values, -1 if name == "argmax" else np.nan)[None]
        kept = kept.astype(np.int64 if name == "argmax" else number)
        over_rows = "none" if name in ("argmax", "logsumexp", "row_max", "row_sum") else "mean"
        quantities[name] = Quantity(kept, ("batch", "head", "query"), "query", unit, "row", over_rows=over_rows)
    quantities["row_valid"] = Quantity(valid[None], ("batch", "query"), "query", "bool", "row")
    by_key = ("batch", "head", "key")
    quantities["received"] = Quantity(counted.sum(1)[None], by_key, "key", "weight", "sum")
    quantities["rows_that_may_see"] = Quantity(pairs.sum(0)[None, None], by_key, "key", "rows", "sum")
    if not cross:
        distances = np.arange(distance.min(), distance.max() + 1)
        at = distances[:, None, None] == distance
        profile = np.stack([(counted * here).sum((1, 2)) for here in at], -1)[None]
        counts = np.array([(pairs & here).sum() for here in at])[None, None]
        by_distance = ("batch", "head", "distance")
        quantities["distance_profile"] = Quantity(profile, by_distance, "distance", "weight", "sum")
        quantities["distance_pairs"] = Quantity(counts, by_distance, "distance", "pairs", "sum")
        quantities["distances"] = Quantity(distances, ("distance",), "distance", "tokens", "fixed")
    cells = [
        [(r, c) for c in np.array_split(np.arange(len(k_at)), min(map_size, len(k_at)))]
        for r in np.array_split(np.arange(len(q_at)), min(map_size, len(q_at)))
    ]
    area = np.array([[valid[r].sum() * len(c) for r, c in row] for row in cells])
    total = np.array([[counted[:, r][:, :, c].sum((1, 2)) for r, c in row] for row in cells]).transpose(2, 0, 1)
    largest = np.array([[counted[:, r][:, :, c].max((1, 2)) for r, c in row] for row in cells]).transpose(2, 0, 1)
    by_cell = ("batch", "head", "query_cell", "key_cell")
    quantities["map_sum"] = Quantity(total[None], by_cell, "cell", "weight", "sum")
    quantities["map_max"] = Quantity(largest[None].astype(number), by_cell, "cell", "weight", "max")
    quantities["map_area"] = Quantity(area[None, None], by_cell, "cell", "pairs", "fixed")
    ratios = {
        "received_mean": Ratio("received", "rows_that_may_see", "weight"),
        "map_mean": Ratio("map_sum", "map_area", "weight"),
    }
    if not cross:
        ratios["distance_mean"] = Ratio("distance_profile", "distance_pairs", "weight")
    return Measurements(quantities, ratios, "dense", ((0, len(q_at)),))


def token_columns(count: int) -> dict[str, list[Any]]:
    """Made-up tokens, the first and last of them special."""
    special = [index in (0, count - 1) for index in range(count)]
    return {
        "position": list(range(count)),
        "id": [101 + index for index in range(count)],
        "text": [f"[{index}]" if one else f"token{index}" for index, one in enumerate(special)],
        "start": [-1 if one else index for index, one in enumerate(special)],
        "end": [-1 if one else index + 1 for index, one in enumerate(special)],
        "word": [-1 if one else index for index, one in enumerate(special)],
        "special": special,
        "segment": [0] * count,
    }


META: dict[str, Any] = {
    "command": None,
    "model": {
        "name": "tiny",
        "revision": None,
        "class": "TinyModel",
        "dtype": "float32",
        "layers": 2,
        "initialised": 0,
        "attention": "eager",
    },
    "self_check": None,
    "cost": {"seconds": {"total": 0.5}, "peak_bytes": 1000, "output_attentions_bytes": 2000},
    "versions": {"python": "3.11"},
}


def write_run(
    path: Path, *layers: Layer, meta: dict[str, Any] | None = None, overwrite: bool = False, keep_inputs: bool = True
) -> Run:
    """A whole run of these layers."""
    with RunWriter(path, overwrite=overwrite, keep_inputs=keep_inputs) as writer:
        writer.source(TEXT)
        writer.tokens(token_columns(max(layer.entry["key_len"] + layer.entry["key_offset"] for layer in layers)))
        for layer in layers:
            writer.layer(layer.entry, layer.measurements, layer.query, layer.key, dtype=layer.dtype)
        return writer.finish(META if meta is None else meta)
