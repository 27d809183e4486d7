"""One attention call, checked at birth: what goes in, whatever model it came from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention import masks as mask_kinds
from heedmap.attention.checks import dense, positive, tensor, whole
from heedmap.attention.masks.base import Frame, Mask
from heedmap.errors import InputError

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
WHERE = "AttentionInputs"


@dataclass(frozen=True, eq=False, init=False)
class AttentionInputs:
    """Query, key, value and all that changes the formula between them.

        scores = softcap(scale · query keyᵀ) + mask;   weights = softmax(scores, sinks)

    Args:
        query: `[batch, query_heads, query_len, head_dim]` in fp32, bf16, fp16 or fp64.
        key: `[batch, key_heads, key_len, head_dim]`; query_heads is a multiple of key_heads (grouped heads).
        value: `[batch, key_heads, key_len, value_dim]`, or None where only the weights matter.
        scale: 1/√head_dim unless given.
        mask: a `Mask`, or a tensor for `masks.from_tensor`; None allows every pair.
        softcap: c in c·tanh(score / c), applied before the mask.
        sinks: one logit for each query head, dropped after the softmax.
        query_offset: text position of the first query; the last query stands at the last key unless given.
        key_offset: text position of the first key (a windowed cache holds only the last keys).
        valid_queries: bool `[batch, query_len]`; rows that are padding are left out of every statistic.
        cross: queries and keys belong to different texts, so that their distance means nothing.
        token_ids: integers `[batch, key_len]`; what `duplicate` and `induction` compare.
        spans, classes: named sets of keys, bool `[batch, key_len]` each, whose share every query is asked for
            (`span_mass`: passages; `class_mass`: kinds of token).
        parts: how much of each key belongs to each of some parts of the text, `[batch or 1, key_len, parts]`, finite;
            a token may lie across the border of two (`part_mass`).

    Raises:
        InputError: shapes, dtypes, sizes or numbers that do not fit, with both sides named.
    """

    query: Tensor
    key: Tensor
    value: Tensor | None
    scale: float
    mask: Mask | None
    softcap: float | None
    sinks: Tensor | None
    query_offset: int
    key_offset: int
    valid_queries: Tensor | None
    cross: bool
    token_ids: Tensor | None
    spans: Mapping[str, Tensor]
    classes: Mapping[str, Tensor]
    parts: Tensor | None

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        scale: float | None = None,
        mask: Mask | Tensor | None = None,
        softcap: float | None = None,
        sinks: Tensor | Sequence[float] | None = None,
        query_offset: int | None = None,
        key_offset: int = 0,
        valid_queries: Tensor | None = None,
        cross: bool = False,
        token_ids: Tensor | None = None,
        spans: Mapping[str, Tensor] | None = None,
        classes: Mapping[str, Tensor] | None = None,
        parts: Tensor | None = None,
    ) -> None:
        _check_tensors(query, key, value)
        batch, heads, query_len, head_dim = query.shape
        key_len = key.shape[2]
        key_offset = whole(WHERE, "key_offset", key_offset)
        if query_offset is None:
            query_offset = key_offset + key_len - query_len
        frame = Frame(batch, heads, query_len, key_len, whole(WHERE, "query_offset", query_offset), key_offset)
        set_field = object.__setattr__
        set_field(self, "query", query.detach())
        set_field(self, "key", key.detach())
        set_field(self, "value", None if value is None else value.detach())
        set_field(self, "scale", positive(WHERE, "scale", 1 / math.sqrt(head_dim) if scale is None else scale))
        set_field(self, "mask", _fitted(mask, frame))
        set_field(self, "softcap", None if softcap is None else positive(WHERE, "softcap", softcap))
        set_field(self, "sinks", None if sinks is None else _sinks(sinks, query))
        set_field(self, "query_offset", frame.query_offset)
        set_field(self, "key_offset", frame.key_offset)
        set_field(self, "valid_queries", _valid(valid_queries, query))
        set_field(self, "cross", bool(cross))
        set_field(self, "token_ids", None if token_ids is None else _of_keys("token_ids", token_ids, key, whole=True))
        for name, sets in (("spans", spans), ("classes", classes)):
            set_field(self, name, {label: _of_keys(label, keys, key) for label, keys in (sets or {}).items()})
        set_field(self, "parts", None if parts is None else _shares(parts, key))

    @property
    def batch(self) -> int:
        return self.query.shape[0]

    @property
    def query_heads(self) -> int:
        return self.query.shape[1]

    @property
    def key_heads(self) -> int:
        return self.key.shape[1]

    @property
    def query_len(self) -> int:
        return self.query.shape[2]

    @property
    def key_len(self) -> int:
        return self.key.shape[2]

    @property
    def head_dim(self) -> int:
        return self.query.shape[3]

    @property
    def compute_dtype(self) -> torch.dtype:
        """Scores and weights are computed in fp32, or in fp64 where the inputs are."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32


def _check_tensors(query: Tensor, key: Tensor, value: Tensor | None) -> None:
    tensors = {"query": query, "key": key} | ({} if value is None else {"value": value})
    for name, given in tensors.items():
        if not isinstance(given, Tensor):
            raise InputError(WHERE, expected=f"{name} as a torch tensor", got=type(given).__name__)
        dense(WHERE, name, given)
        if given.dim() != 4:
            raise InputError(
                WHERE,
                expected=f"{name} [batch, heads, length, dim]",
                got=f"{list(given.shape)}",
                do=f"add leading dimensions, such as {name}[None, None]",
            )
        if given.dtype not in DTYPES:
            raise InputError(WHERE, expected=f"{name} in fp32, bf16, fp16 or fp64", got=f"{given.dtype}")
        if 0 in given.shape:
            raise InputError(WHERE, expected=f"{name} with no empty dimension", got=f"{list(given.shape)}")
        if given.dtype != query.dtype or given.device != query.device:
            raise InputError(
                WHERE,
                expected=f"{name} like the query in {query.dtype} on {query.device}",
                got=f"{given.dtype} on {given.device}",
            )
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise InputError(
            WHERE,
            expected="query and key of one batch size and head_dim",
            got=f"{list(query.shape)}, {list(key.shape)}",
        )
    if query.shape[1] % key.shape[1]:
        raise InputError(
            WHERE, expected="query heads as a multiple of key heads", got=f"{query.shape[1]} and {key.shape[1]}"
        )
    if value is not None and value.shape[:3] != key.shape[:3]:
        raise InputError(
            WHERE,
            expected=f"value [{', '.join(map(str, key.shape[:3]))}, dim] like the key",
            got=f"{list(value.shape)}",
        )


def _fitted(mask: Mask | Tensor | None, frame: Frame) -> Mask | None:
    if mask is None:
        return None
    if isinstance(mask, Tensor):
        mask = mask_kinds.from_tensor(mask)
    if not isinstance(mask, Mask):
        raise InputError(
            WHERE,
            expected="a mask of heedmap.masks or a tensor",
            got=type(mask).__name__,
            do="make one, such as masks.causal(), or masks.from_tensor(…) of numbers",
        )
    return mask.fit(frame)


def _sinks(sinks: Tensor | Sequence[float], query: Tensor) -> Tensor:
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    table = tensor(WHERE, "sinks", sinks, query.device).detach().to(dtype)
    if table.shape != (query.shape[1],):
        raise InputError(WHERE, expected=f"sinks [{query.shape[1]}], one a query head", got=f"{list(table.shape)}")
    if bool(torch.isnan(table).any()) or bool(torch.isposinf(table).any()):
        raise InputError(WHERE, expected="sinks below infinity", got="NaN or +inf")
    return table


def _valid(valid: Tensor | None, query: Tensor) -> Tensor | None:
    if valid is None:
        return None
    rows = tensor(WHERE, "valid_queries", valid, query.device)
    if rows.shape != (query.shape[0], query.shape[2]) or rows.dtype != torch.bool:
        raise InputError(
            WHERE,
            expected=f"valid_queries as bool [{query.shape[0]}, {query.shape[2]}]",
            got=f"{rows.dtype} {list(rows.shape)}",
        )
    return None if bool(rows.all()) else rows


def _of_keys(name: str, values: Tensor, key: Tensor, whole: bool = False) -> Tensor:
    """One value for each key: whole numbers, or booleans."""
    table = tensor(WHERE, name, values, key.device)
    fits = table.shape == (key.shape[0], key.shape[2])
    kind = not (table.is_floating_point() or table.dtype == torch.bool) if whole else table.dtype == torch.bool
    if not fits or not kind:
        raise InputError(
            WHERE,
            expected=f"{name} as {'integers' if whole else 'bool'} [{key.shape[0]}, {key.shape[2]}], one a key",
            got=f"{table.dtype} {list(table.shape)}",
        )
    return table


def _shares(parts: Tensor, key: Tensor) -> Tensor:
    table = tensor(WHERE, "parts", parts, key.device)
    fits = (
        table.dim() == 3 and table.shape[0] in (1, key.shape[0]) and table.shape[1] == key.shape[2] and table.shape[2]
    )
    if not (fits and table.is_floating_point() and bool(torch.isfinite(table).all())):
        raise InputError(
            WHERE,
            expected=f"parts as finite floats [{key.shape[0]} or 1, {key.shape[2]}, parts], one row a key",
            got=f"{table.dtype} {list(table.shape)}",
        )
    return table
