"""Masks: which keys a query may attend to. True always means that the pair may attend.

from heedmap.attention import masks
masks.causal() & masks.padding(valid)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from heedmap.attention.checks import tensor, whole
from heedmap.attention.masks.base import Bounds, Frame, Mask
from heedmap.attention.masks.data import FromFunction, FromTensor, MaskFunction, Packed, Padding
from heedmap.attention.masks.polarity import read_mask
from heedmap.attention.masks.structured import Causal, Chunked, Everything, Prefix, SlidingWindow
from heedmap.errors import InputError

__all__ = [
    "Bounds",
    "Frame",
    "Mask",
    "causal",
    "chunked",
    "everything",
    "from_function",
    "from_tensor",
    "packed",
    "padding",
    "prefix",
    "sliding_window",
]


def everything() -> Mask:
    """Every query may attend to every key."""
    return Everything()


def causal(offset: int = 0) -> Mask:
    """Keys at or before the query: `key <= query + offset`, in text positions.

    Unequal lengths are aligned bottom right: the last query stands at the last key.
    """
    return Causal(whole("causal", "offset", offset))


def sliding_window(size: int, both_sides: bool = False) -> Mask:
    """The last `size` keys, the query's own counted; with `both_sides` all with `|query - key| <= size`."""
    return SlidingWindow(_size("sliding_window", size), bool(both_sides))


def chunked(size: int, start: int | Sequence[int] = 0) -> Mask:
    """Keys of the query's own chunk of `size` positions, counted from `start`; usually `causal() & chunked(size)`."""
    return Chunked(_size("chunked", size), _each("chunked", "start", start))


def padding(valid: Tensor) -> Mask:
    """Real keys only: `valid` is bool or 0/1, `[key]` or `[batch, key]`, True for a real token."""
    values = _rows("padding", valid)
    if values.dtype != torch.bool:
        if values.is_floating_point() or bool(((values != 0) & (values != 1)).any()):
            raise InputError(
                "padding", expected="booleans or integers 0 and 1", got=f"{values.dtype} with other values"
            )
        values = values != 0
    return Padding(values)


def packed(document_ids: Tensor) -> Mask:
    """Tokens see their own document only: integers, `[key]` or `[batch, key]`; usually `causal() & packed(ids)`."""
    values = _rows("packed", document_ids)
    if values.is_floating_point() or values.dtype == torch.bool:
        raise InputError("packed", expected="integer document numbers", got=f"{values.dtype}")
    return Packed(values)


def prefix(length: int | Sequence[int]) -> Mask:
    """The first `length` keys (one number, or one for each batch item); a prefix LM is `causal() | prefix(length)`."""
    return Prefix(_each("prefix", "length", length, least=0))


def from_tensor(mask: Tensor) -> Mask:
    """A mask given whole: bool or 0/1 integers (True = may attend), or float (added to the scores).

    Shape `[query, key]`, `[heads, query, key]` or `[batch, heads, query, key]`, dimensions of 1 broadcast.
    In a float mask −∞ and the dtype's lowest number hide; other values are a bias and stay one.

    Raises:
        InputError: a float mask of only 0 and 1, which could mean either; NaN or +∞; more than four dimensions.
    """
    table = tensor("from_tensor", "a mask", mask)
    if not 2 <= table.dim() <= 4:
        raise InputError("from_tensor", expected="2 to 4 dimensions", got=f"{table.dim()} dimensions")
    allowed, bias = read_mask("from_tensor", table)
    lift = (1,) * (4 - table.dim()) + tuple(table.shape)
    bias = None if bias is None else bias.detach().reshape(lift)
    return FromTensor(allowed.reshape(lift), bias, requires_grad=table.requires_grad)


def from_function(function: MaskFunction) -> Mask:
    """`function(batch, head, query, key) -> bool`, called with index tensors that broadcast, a strip at a time."""
    if not callable(function):
        raise InputError("from_function", expected="a function of (batch, head, query, key)", got=f"{function!r}")
    return FromFunction(function)


def _size(where: str, value: int) -> int:
    return whole(where, "size", value, least=1, do="leave the mask out for no limit")


def _each(where: str, name: str, values: int | Sequence[int], *, least: int | None = None) -> tuple[int, ...]:
    """One whole number for all texts, or one for each."""
    several = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    if not several:
        raise InputError(where, expected=f"a {name}, or one for each text", got="none")
    return tuple(whole(where, name, value, least=least) for value in several)


def _rows(where: str, values: Tensor) -> Tensor:
    table = tensor(where, "one value for each key", values)
    if table.dim() == 1:
        table = table[None]
    if table.dim() != 2:
        raise InputError(where, expected="[key] or [batch, key]", got=f"{list(table.shape)}")
    return table
