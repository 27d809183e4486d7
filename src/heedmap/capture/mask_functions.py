"""Reads transformers' mask functions: what they are made of, as heedmap's own describable masks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from transformers import masking_utils

from heedmap.attention import masks
from heedmap.attention.masks.base import ALL_HEADS, Bounds, Mask
from heedmap.attention.masks.combine import And
from heedmap.attention.masks.structured import Everything, OfOneText, SlidingWindow

MaskFunction = Callable[..., Any]


def _inner(factory: str) -> CodeType | None:
    """The code of the mask function that one of transformers' factories returns, None where this version has none."""
    function = getattr(masking_utils, factory, None)
    if not isinstance(function, FunctionType):
        return None
    inner = (constant for constant in function.__code__.co_consts if isinstance(constant, CodeType))
    return next((code for code in inner if not code.co_name.startswith("<")), None)  # not a comprehension's


_CODES = {
    name: code
    for name in (
        "and_masks",
        "or_masks",
        "sliding_window_overlay",
        "sliding_window_bidirectional_overlay",
        "chunked_overlay",
        "padding_mask_function",
        "packed_sequence_mask_function",
        "remap_positions_for_packed_sequence",
        "blockwise_overlay",
    )
    if (code := _inner(name)) is not None
}


@dataclass(frozen=True)
class Window:
    """The key positions of one call, `[start, stop)`."""

    start: int
    stop: int

    def cut(self, values: Tensor) -> Tensor:
        """`[batch, position]` → the columns of this call's keys; 0 for positions past the end."""
        missing = self.stop - values.shape[-1]
        if missing > 0:
            values = torch.nn.functional.pad(values, (0, missing))
        return values[:, self.start : self.stop]


class OneSided(OfOneText):
    """transformers' window without its causal half, `key > query − size`; becomes a window when causal joins it."""

    why = "a sliding window with no causal half"

    def __init__(self, size: int) -> None:
        self.size = size

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return key_positions[None, :] > query_positions[:, None] - self.size

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        visit = (query_start - self.size + 1, key_stop)
        return Bounds.of(visit, (query_stop - self.size, key_stop), (key_start, key_stop))


class ModelFunction(Mask):
    """A mask function that only its model knows, called a strip at a time, for head 0 as transformers itself does."""

    why = "the model's own mask function"

    def __init__(self, function: MaskFunction, one_by_one: bool = False) -> None:
        self.function = function
        self.one_by_one = one_by_one

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        device = key_positions.device
        item, head = torch.tensor(batch, device=device), torch.tensor(0, device=device)
        if self.one_by_one:
            over_keys = torch.vmap(self.function, in_dims=(None, None, None, 0))
            over_rows = torch.vmap(over_keys, in_dims=(None, None, 0, None))
            with TransformGetItemToIndex():
                answer = over_rows(item, head, query_positions, key_positions)
        else:
            answer = self.function(item, head, query_positions[:, None], key_positions[None, :])
        shape = (query_positions.shape[0], key_positions.shape[0])
        return torch.as_tensor(answer, device=device).to(torch.bool).expand(shape)


def read_function(function: MaskFunction, keys: Window, *, one_by_one: bool = False) -> Mask:
    """heedmap's mask for a transformers mask function `f(batch, head, query, key) -> bool`.

    Functions made by transformers' own factories become describable masks with bounds; what is unknown stays a
    function, alone or beside the known parts, so that the answer is the same for every pair.

    Args:
        function: the mask function, over text positions.
        keys: the key positions of this call.
        one_by_one: the function may not broadcast (transformers' `use_vmap`).
    """
    return _join([_read(function, keys, one_by_one)])


def _read(function: MaskFunction, keys: Window, one_by_one: bool) -> Mask:
    if function is masking_utils.causal_mask_function:
        return masks.causal()
    if function is getattr(masking_utils, "bidirectional_mask_function", None):
        return masks.everything()
    kind = _kind(function)
    held = inspect.getclosurevars(function).nonlocals if kind else {}
    match kind:
        case "and_masks":
            return _join(_read_all(held["mask_functions"], keys, one_by_one))
        case "or_masks":
            parts = [_join([_read(part, keys, one_by_one)]) for part in held["mask_functions"]]
            return reduce(lambda left, right: left | right, parts)
        case "sliding_window_overlay":
            return OneSided(int(held["sliding_window"]))
        case "sliding_window_bidirectional_overlay":
            return SlidingWindow(int(held["sliding_window"]), both_sides=True)
        case "chunked_overlay":
            return masks.chunked(int(held["chunk_size"]), [int(start) for start in held["left_padding"].tolist()])
        case "padding_mask_function":
            return masks.padding(keys.cut(held["padding_mask"].to(torch.bool)))
        case "packed_sequence_mask_function":
            return masks.packed(keys.cut(held["packed_sequence_mask"]))
        case "blockwise_overlay":
            blocks = keys.cut(held["block_sequence_ids"])
            return masks.packed(blocks) & masks.padding(blocks >= 0)
    return ModelFunction(function, one_by_one)


def _read_all(functions: tuple[MaskFunction, ...], keys: Window, one_by_one: bool) -> list[Mask]:
    """The parts of a conjunction. Packed documents renumber positions from 0 in each document, and within a document
    that changes no difference: a mask that asks for differences only is the same without the renumbering."""
    packed = any(_kind(function) == "packed_sequence_mask_function" for function in functions)
    parts: list[Mask] = []
    for function in functions:
        if packed and _kind(function) == "remap_positions_for_packed_sequence":
            plain = inspect.getclosurevars(function).nonlocals["mask_function"]
            part = _read(plain, keys, one_by_one)
            parts.append(part if _by_difference(plain) else ModelFunction(function, one_by_one))
        else:
            parts.append(_read(function, keys, one_by_one))
    return parts


def _by_difference(function: MaskFunction) -> bool:
    if function is masking_utils.causal_mask_function:
        return True
    kind = _kind(function)
    if kind in ("and_masks", "or_masks"):
        return all(map(_by_difference, inspect.getclosurevars(function).nonlocals["mask_functions"]))
    return kind in ("sliding_window_overlay", "sliding_window_bidirectional_overlay")


def _kind(function: MaskFunction) -> str | None:
    code = getattr(function, "__code__", None)
    return next((name for name, known in _CODES.items() if known is code), None)


def _join(parts: list[Mask]) -> Mask:
    """All parts at once: `key > query − n` and causal make a window, what allows everything adds nothing."""
    flat = [leaf for part in parts for leaf in _leaves(part) if not isinstance(leaf, Everything)]
    windows = [part for part in flat if isinstance(part, OneSided)]
    if windows and masks.causal() in flat:
        rest = [part for part in flat if part not in windows and part != masks.causal()]
        flat = [*(masks.sliding_window(window.size) for window in windows), *rest]
    return reduce(lambda left, right: left & right, flat) if flat else masks.everything()


def _leaves(mask: Mask) -> list[Mask]:
    return [*_leaves(mask.left), *_leaves(mask.right)] if isinstance(mask, And) else [mask]
