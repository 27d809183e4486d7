"""What one shard adds to the whole set: sums in float64 that merge, in the order of shards, to the same bits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from heedmap.errors import RunError
from heedmap.sets.schema import CELLS, ENTROPY_BINS, KINDS, STARTS, TOPS

Array = np.ndarray[Any, Any]
Head = tuple[str, int, int]


@dataclass(frozen=True)
class Sums:
    """Sums over some texts; H heads, V values of each head, K kinds of token, T types of head.

    Attributes:
        heads: (part, layer, head) of each head.
        values: names of the values.
        types: names of the types of head.
        arrays: by name. `count [V, H]`, `mean`, `deviations` (Σ (x − mean)²), `least`, `most` of each value over the
            texts where it is finite; `weight`, `pairs [H, bins]` by distance; `rows [H, bins]` by entropy; `received`,
            `may_see [H, K]` and `tokens [K]` by kind; `map [H, 32, 32]` and `texts [1]`; `judged`, `of_type [T, H]`;
            `high`, `low [V, H, 10]` with `high_text`, `low_text`, the texts at either end, −1 where there are fewer.
    """

    heads: tuple[Head, ...]
    values: tuple[str, ...]
    types: tuple[str, ...]
    arrays: dict[str, Array]

    @classmethod
    def empty(cls, heads: Sequence[Head], values: Sequence[str], types: Sequence[str]) -> Sums:
        """Sums over no text."""
        h, v, k, t = len(heads), len(values), len(KINDS), len(types)
        nothing = np.zeros((v, h))
        arrays = {
            "count": np.zeros((v, h), np.int64),
            "mean": nothing.copy(),
            "deviations": nothing.copy(),
            "least": np.full((v, h), np.inf),
            "most": np.full((v, h), -np.inf),
            "weight": np.zeros((h, len(STARTS))),
            "pairs": np.zeros((h, len(STARTS)), np.int64),
            "rows": np.zeros((h, ENTROPY_BINS), np.int64),
            "received": np.zeros((h, k)),
            "may_see": np.zeros((h, k), np.int64),
            "tokens": np.zeros(k, np.int64),
            "map": np.zeros((h, CELLS, CELLS)),
            "texts": np.zeros(1, np.int64),
            "judged": np.zeros((t, h), np.int64),
            "of_type": np.zeros((t, h), np.int64),
        }
        for end in ("high", "low"):
            arrays[end] = np.full((v, h, TOPS), np.nan)
            arrays[f"{end}_text"] = np.full((v, h, TOPS), -1, np.int64)
        return cls(tuple(heads), tuple(values), tuple(types), arrays)

    def merge(self, other: Sums) -> Sums:
        """The sums over the texts of both. Raises `RunError` for sums of other heads or values."""
        if (self.heads, self.values, self.types) != (other.heads, other.values, other.types):
            raise RunError(
                "scan",
                expected="the same heads and values in every shard",
                got=f"{len(self.heads)} heads and {len(other.heads)}",
                do="the model changed while the set was made: choose another folder",
            )
        mine, theirs = self.arrays, other.arrays
        merged = {name: mine[name] + theirs[name] for name in mine}
        merged |= _moments(mine, theirs)
        merged["least"] = np.minimum(mine["least"], theirs["least"])
        merged["most"] = np.maximum(mine["most"], theirs["most"])
        for end in ("high", "low"):
            merged |= ends(
                np.concatenate([mine[end], theirs[end]], -1),
                np.concatenate([mine[f"{end}_text"], theirs[f"{end}_text"]], -1),
                end,
            )
        return Sums(self.heads, self.values, self.types, merged)

    def dump(self) -> bytes:
        """As a safetensors file, which says by what digest its numbers are known again."""
        arrays = {name: np.ascontiguousarray(self.arrays[name]) for name in sorted(self.arrays)}
        names = {"heads": self.heads, "values": self.values, "types": self.types}
        named = json.dumps(names | {"sha256": _digest(arrays, names)})  # one entry: several come in any order
        return save(arrays, {"names": named})

    @classmethod
    def load(cls, path: str) -> Sums:
        """Read what `dump` wrote. Raises `RunError`."""
        try:
            with safe_open(path, framework="numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — not a mapping
                names = json.loads((file.metadata() or {})["names"])
            if names.pop("sha256") != _digest(arrays, names):
                raise ValueError("other numbers than were written")
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise RunError("scan", expected=f"the sums of a shard in {path}", got=str(error)) from error
        heads = tuple((str(part), int(layer), int(head)) for part, layer, head in names["heads"])
        found = cls(heads, tuple(names["values"]), tuple(names["types"]), arrays)
        wanted = cls.empty(found.heads, found.values, found.types).arrays
        if {name: (a.shape, a.dtype) for name, a in arrays.items()} != {
            name: (a.shape, a.dtype) for name, a in wanted.items()
        }:
            raise RunError("scan", expected=f"the sums of a shard in {path}", got="arrays of other names or shapes")
        return found


def _digest(arrays: dict[str, Array], names: dict[str, Any]) -> str:
    """sha256 over names and numbers: a disk may give back other bytes than it was given."""
    found = hashlib.sha256(json.dumps(names, sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(name.encode() + arrays[name].tobytes())
    return found.hexdigest()


def _moments(left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
    """Mean and sum of squared deviations of both parts together (Chan, Golub, LeVeque 1983)."""
    n, m = left["count"], right["count"]
    both = np.maximum(n + m, 1)
    step = right["mean"] - left["mean"]
    return {
        "mean": np.where(n == 0, right["mean"], left["mean"] + step * (m / both)),
        "deviations": left["deviations"] + right["deviations"] + step**2 * (n * (m / both)),
    }


def _ascending(values: Array, end: str) -> Array:
    """What is sorted in ascending order to have one end first and NaN last."""
    return np.where(np.isnan(values), np.inf, values if end == "low" else -values)


def ends(values: Array, texts: Array, end: str) -> dict[str, Array]:
    """The `TOPS` highest or lowest along the last axis, NaN left out; of equal ones the text that came first."""
    order = np.lexsort((texts, _ascending(values, end)))[..., :TOPS]
    values, texts = np.take_along_axis(values, order, -1), np.take_along_axis(texts, order, -1)
    texts = np.where(np.isnan(values), -1, texts)
    room = [(0, 0)] * (values.ndim - 1) + [(0, TOPS - values.shape[-1])]
    return {
        end: np.pad(values, room, constant_values=np.nan),
        f"{end}_text": np.pad(texts, room, constant_values=-1),
    }


def _extreme(values: Array, end: str) -> Array:
    """Places along the last axis of the `TOPS` highest or lowest values, NaN last, of equal ones the first."""
    if values.shape[-1] <= TOPS:
        return np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    keys = _ascending(values, end)
    bar = np.partition(keys, TOPS - 1, -1)[..., TOPS - 1 : TOPS]
    under, level = keys < bar, keys == bar
    room = TOPS - np.count_nonzero(under, -1)
    crowded = np.count_nonzero(level, -1) > room
    level[crowded] &= level[crowded].cumsum(-1) <= room[crowded][:, None]
    return np.nonzero(under | level)[-1].reshape(*keys.shape[:-1], TOPS)


def of_values(values: Array, texts: Array) -> dict[str, Array]:
    """The arrays of `Sums` that come from values `[texts, V, H]`, NaN left out; `texts` are their ascending numbers."""
    finite = np.isfinite(values)
    count = finite.sum(0)
    safe = np.where(finite, values, 0.0)
    mean = safe.sum(0) / np.maximum(count, 1)
    deviations = np.where(finite, (values - mean) ** 2, 0.0).sum(0)
    arrays: dict[str, Array] = {
        "count": count,
        "mean": mean,
        "deviations": deviations,
        "least": np.where(finite, values, np.inf).min(0, initial=np.inf),
        "most": np.where(finite, values, -np.inf).max(0, initial=-np.inf),
    }
    kept = np.where(finite, values, np.nan).transpose(1, 2, 0)
    for end in ("high", "low"):
        few = _extreme(kept, end)
        arrays |= ends(np.take_along_axis(kept, few, -1), texts[few], end)
    return arrays
