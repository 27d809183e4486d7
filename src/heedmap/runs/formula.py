"""The formula of attention in NumPy, from the plain data that a run keeps: mask, scale, softcap, row maximum and sum.

    scores[i, j]  = softcap · tanh(scale · q_i · k_j / softcap)   where the mask allows (i, j), else −∞
    weights[i, j] = exp(scores[i, j] − row_max_i) / row_sum_i

The sinks need no term here: a row's maximum and sum include its sink, whose weight is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heedmap.runs.schema import MalformedError, short

DEEPEST = 32
BLOCK_BYTES = 32 * 2**20

Array = np.ndarray[Any, Any]


def allowed(mask: Mapping[str, Any], queries: Array, keys: Array) -> Array:
    """Which pairs of text positions may attend, from a mask's description.

    Args:
        mask: a description that `check_mask` accepts and `why_opaque` has nothing against.
        queries: int `[rows]`, text positions.
        keys: int `[keys]`, text positions.

    Returns:
        bool, broadcastable to `[rows, keys]`.
    """
    kind = mask["kind"]
    rows, columns = queries[:, None], keys[None, :]
    if kind == "all":
        return np.ones((1, 1), bool)
    if kind == "causal":
        return columns <= rows + mask.get("offset", 0)
    if kind == "sliding_window":
        distance = rows - columns
        if mask.get("both_sides", False):
            return np.abs(distance) <= mask["size"]
        return (distance >= 0) & (distance < mask["size"])
    if kind == "chunked":
        size, start = mask["size"], mask.get("start", 0)
        return (rows - start) // size == (columns - start) // size
    if kind == "prefix":
        return columns < mask["length"]
    if kind == "padding":
        return _stretch(mask["valid"], keys)[None, :] >= 0
    if kind == "packed":
        names = np.array([document[2] for document in mask["documents"]] + [0])
        asked, offered = _stretch(mask["documents"], queries), _stretch(mask["documents"], keys)
        same = names[asked][:, None] == names[offered][None, :]
        return same & (asked >= 0)[:, None] & (offered >= 0)[None, :]
    of = [allowed(part, queries, keys) for part in mask["of"]]
    combine = np.logical_and if kind == "and" else np.logical_or
    result = of[0]
    for part in of[1:]:
        result = combine(result, part)
    return result


def _stretch(stretches: Sequence[Sequence[int]], positions: Array) -> Array:
    """The index of the stretch `[start, stop)` that holds each position, −1 where none does."""
    if not stretches:
        return np.full(positions.shape, -1)
    starts = np.array([stretch[0] for stretch in stretches])
    stops = np.array([stretch[1] for stretch in stretches])
    index = np.searchsorted(starts, positions, side="right") - 1
    return np.where((index >= 0) & (positions < stops[index]), index, -1)


def why_opaque(mask: Mapping[str, Any]) -> str | None:
    """Why a mask cannot be evaluated from its description, or None where it can."""
    kind = mask["kind"]
    if kind == "opaque":
        return str(mask.get("why", "the mask has no plain description"))
    if kind in ("and", "or"):
        return next((why for part in mask["of"] if (why := why_opaque(part)) is not None), None)
    return None if kind in _FIELDS else f"the mask kind {short(kind)} is unknown to this heedmap"


_FIELDS: dict[str, dict[str, int]] = {  # kind → integer fields and their smallest value
    "all": {},
    "causal": {},
    "sliding_window": {"size": 0},
    "chunked": {"size": 1},
    "prefix": {"length": 0},
    "padding": {},
    "packed": {},
}
KINDS = frozenset({*_FIELDS, "and", "or"})
"""Every mask kind that `allowed` can evaluate."""

_OPTIONAL = {"causal": "offset", "chunked": "start"}
_STRETCHES = {"padding": ("valid", 2), "packed": ("documents", 3)}


def check_mask(mask: object, depth: int = 0) -> None:
    """Raise `MalformedError` unless this is a mask description of any kind, known or not."""
    if not isinstance(mask, Mapping) or not isinstance(mask.get("kind"), str):
        raise MalformedError("a mask description with its kind", short(mask))
    if depth > DEEPEST:
        raise MalformedError(f"a mask nested at most {DEEPEST} deep", "a deeper one")
    kind = mask["kind"]
    if kind in ("and", "or"):
        parts = mask.get("of")
        if not isinstance(parts, list) or not parts:
            raise MalformedError(f"masks to combine in {kind!r}", short(parts))
        for part in parts:
            check_mask(part, depth + 1)
    for field, least in _FIELDS.get(kind, {}).items():
        _check_integer(kind, field, mask.get(field), least)
    if kind in _OPTIONAL:
        _check_integer(kind, _OPTIONAL[kind], mask.get(_OPTIONAL[kind], 0), None)
    if kind in _STRETCHES:
        _check_stretches(kind, *_STRETCHES[kind], mask)
    if not isinstance(mask.get("both_sides", False), bool):
        raise MalformedError("both_sides true or false", short(mask["both_sides"]))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _check_integer(kind: str, field: str, value: object, least: int | None) -> None:
    if not _is_integer(value) or (least is not None and isinstance(value, int) and value < least):
        raise MalformedError(f"{field} of mask {kind!r} as an integer" + (f" ≥ {least}" if least else ""), short(value))


def _check_stretches(kind: str, field: str, width: int, mask: Mapping[str, Any]) -> None:
    stretches = mask.get(field)
    wanted = f"{field} of mask {kind!r} as ascending stretches of {width} integers"
    if not isinstance(stretches, list):
        raise MalformedError(wanted, short(stretches))
    last = None
    for stretch in stretches:
        if not isinstance(stretch, list) or len(stretch) != width or not all(map(_is_integer, stretch)):
            raise MalformedError(wanted, short(stretch))
        if stretch[0] > stretch[1] or (last is not None and stretch[0] < last):
            raise MalformedError(wanted, short(stretch))
        last = stretch[1]


def raw_scores(query: Array, key: Array) -> Array:
    """`[rows, head_dim]` × `[keys, head_dim]` → q·k, float64 `[rows, keys]`; NaN and ∞ of a key stay in its column."""
    with np.errstate(all="ignore"):
        return query.astype(np.float64) @ key.astype(np.float64).T


def scores(raw: Array, scale: float, softcap: float | None, may: Array) -> Array:
    """Raw scores, scaled, softcapped and masked (hidden −∞); works in place on float64 `[rows, keys]`."""
    with np.errstate(all="ignore"):
        raw *= scale
        if softcap is not None:
            raw /= softcap
            np.tanh(raw, out=raw)
            raw *= softcap
    np.copyto(raw, -np.inf, where=np.broadcast_to(~may, raw.shape))
    return raw


def weights(scored: Array, row_max: Array, row_sum: Array) -> Array:
    """exp(scores − m) / l in place; a row without an allowed key is 0, one that was left out (m is NaN) is NaN."""
    empty = row_sum == 0
    with np.errstate(all="ignore"):
        scored -= np.where(empty, 0.0, row_max.astype(np.float64))[:, None]
        np.exp(scored, out=scored)
        scored /= np.where(empty, 1.0, row_sum.astype(np.float64))[:, None]
    scored[empty] = 0.0
    return scored
