"""The tables over the whole set, from merged sums; `docs/sets.md` says what each column is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import save

from heedmap.heads.student import student_quantile
from heedmap.heads.types import TYPES
from heedmap.runs.schema import tensor_name
from heedmap.sets.schema import ENTROPY_STEP, KINDS, STARTS, STOPS
from heedmap.sets.sums import Sums

Array = np.ndarray[Any, Any]


def head_columns(sums: Sums, index: Array) -> dict[str, pa.Array]:
    """The columns `part, layer, head` of the heads with these places."""
    part, layer, head = zip(*sums.heads, strict=True)
    return {
        "part": pa.array(np.array(part)[index], pa.string()),
        "layer": pa.array(np.array(layer)[index], pa.int32()),
        "head": pa.array(np.array(head)[index], pa.int32()),
    }


def named(names: tuple[str, ...], index: Array) -> pa.Array:
    """Names by their places."""
    return pa.array(np.array(names, dtype=object)[index], pa.string())


def means(sums: Sums, units: Mapping[str, str]) -> pa.Table:
    """One row a head and value: mean over texts with its 95 % interval (Student's t), standard deviation, extremes."""
    a = sums.arrays
    value, head = np.nonzero(a["count"])
    count = a["count"][value, head]
    deviation = np.sqrt(a["deviations"][value, head] / np.maximum(count - 1, 1))
    reach = np.array([student_quantile(int(n) - 1) if n > 1 else np.nan for n in np.unique(count)])
    half = reach[np.searchsorted(np.unique(count), count)] * deviation / np.sqrt(count)
    mean = a["mean"][value, head]
    alone = count < 2
    return pa.table(
        head_columns(sums, head)
        | {
            "statistic": named(sums.values, value),
            "unit": pa.array([units[sums.values[place]] for place in value], pa.string()),
            "texts": pa.array(count),
            "mean": pa.array(mean),
            "low": pa.array(mean - half, from_pandas=True),
            "high": pa.array(mean + half, from_pandas=True),
            "deviation": pa.array(np.where(alone, np.nan, deviation), from_pandas=True),
            "least": pa.array(a["least"][value, head]),
            "most": pa.array(a["most"][value, head]),
        }
    )


def profiles(sums: Sums) -> pa.Table:
    """One row a head and bin of distances: weight and pairs summed over all texts, and their ratio."""
    weight, pairs = sums.arrays["weight"], sums.arrays["pairs"]
    head, bin_ = np.nonzero(pairs)
    return pa.table(
        head_columns(sums, head)
        | {
            "distance_from": pa.array(STARTS[bin_]),
            "distance_to": pa.array(STOPS[bin_] - 1),
            "weight": pa.array(weight[head, bin_]),
            "pairs": pa.array(pairs[head, bin_]),
            "mean_weight": pa.array(weight[head, bin_] / pairs[head, bin_]),
        }
    )


def entropies(sums: Sums) -> pa.Table:
    """One row a head and bin of entropy: how many rows of all texts have it."""
    rows = sums.arrays["rows"]
    head, bin_ = np.nonzero(rows)
    return pa.table(
        head_columns(sums, head)
        | {
            "entropy_from": pa.array(np.round(bin_ * ENTROPY_STEP, 6)),
            "entropy_to": pa.array(np.round((bin_ + 1) * ENTROPY_STEP, 6)),
            "rows": pa.array(rows[head, bin_]),
        }
    )


def kinds(sums: Sums) -> pa.Table:
    """One row a head and kind of token: what tokens of the kind receive, in all and on the mean."""
    received, may_see, tokens = (sums.arrays[name] for name in ("received", "may_see", "tokens"))
    head, kind = np.nonzero(np.broadcast_to(tokens > 0, received.shape))
    mass, pairs = received[head, kind], may_see[head, kind]
    total = received.sum(1)[head]
    with np.errstate(invalid="ignore", divide="ignore"):
        return pa.table(
            head_columns(sums, head)
            | {
                "kind": named(tuple(KINDS), kind),
                "tokens": pa.array(tokens[kind]),
                "received": pa.array(mass),
                "share": pa.array(np.where(total > 0, mass / total, np.nan), from_pandas=True),
                "pairs": pa.array(pairs),
                "mean_weight": pa.array(np.where(pairs > 0, mass / pairs, np.nan), from_pandas=True),
            }
        )


def types(sums: Sums) -> pa.Table:
    """One row a head and type: in how many texts it is of that type, and whether its mean over texts is."""
    judged, of_type = sums.arrays["judged"], sums.arrays["of_type"]
    kind, head = np.nonzero(judged)
    mean = np.array([sums.arrays["mean"][sums.values.index(name)] for name in sums.types])[kind, head]
    bars = [TYPES[sums.types[place]] for place in kind]
    return pa.table(
        head_columns(sums, head)
        | {
            "type": named(sums.types, kind),
            "mean": pa.array(mean),
            "bar": pa.array([bar.bar for bar in bars]),
            "holds": pa.array([bar.holds(value) for bar, value in zip(bars, mean.tolist(), strict=True)]),
            "texts": pa.array(judged[kind, head]),
            "texts_of_type": pa.array(of_type[kind, head]),
        }
    )


def maps(sums: Sums) -> bytes:
    """Mean map of each layer over texts, float32 `[heads, 32, 32]`, as a safetensors file."""
    mean = (sums.arrays["map"] / sums.arrays["texts"]).astype(np.float32)
    layers: dict[tuple[str, int], list[int]] = {}
    for place, (part, layer, _) in enumerate(sums.heads):
        layers.setdefault((part, layer), []).append(place)
    return save({tensor_name(part, layer, "mean"): mean[own] for (part, layer), own in sorted(layers.items())})
