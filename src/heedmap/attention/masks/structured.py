"""Masks that are a formula of positions: causal, sliding window, chunked, prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heedmap.attention.masks.base import ALL_HEADS, Bounds, Frame, Mask
from heedmap.errors import InputError


class OfOneText(Mask):
    """A mask that says which keys of a text are seen, and nothing of other texts."""

    def same_text(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Everything(OfOneText):
    """Every pair may attend."""

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        shape = (query_positions.shape[0], key_positions.shape[0])
        return torch.ones((), dtype=torch.bool, device=key_positions.device).expand(shape)

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        return Bounds(key_start, key_stop, key_start, key_stop)

    def describe(self, batch: int = 0) -> dict[str, Any]:
        return {"kind": "all"}


@dataclass(frozen=True)
class Causal(OfOneText):
    """Keys at or before the query: `key <= query + offset`."""

    offset: int = 0

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return key_positions[None, :] <= query_positions[:, None] + self.offset

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        visit = (key_start, query_stop + self.offset)
        full = (key_start, query_start + self.offset + 1)
        return Bounds.of(visit, full, (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any]:
        return {"kind": "causal", "offset": self.offset}


@dataclass(frozen=True)
class SlidingWindow(OfOneText):
    """The last `size` keys, `0 <= query - key < size`; both sides: `|query - key| <= size`."""

    size: int
    both_sides: bool = False

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        distance = query_positions[:, None] - key_positions[None, :]
        if self.both_sides:
            return distance.abs() <= self.size
        return (distance >= 0) & (distance < self.size)

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        back = self.size if self.both_sides else self.size - 1
        ahead = self.size if self.both_sides else 0
        visit = (query_start - back, query_stop + ahead)
        full = (query_stop - 1 - back, query_start + ahead + 1)
        return Bounds.of(visit, full, (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any]:
        return {"kind": "sliding_window", "size": self.size, "both_sides": self.both_sides}


@dataclass(frozen=True)
class Chunked(OfOneText):
    """Keys of the query's own chunk of `size` positions: `query // size == key // size`."""

    size: int
    start: tuple[int, ...] = (0,)
    """Where the first chunk starts, one for all batch items or one each (left padding shifts it)."""

    def _start(self, batch: int) -> int:
        return self.start[batch % len(self.start)]

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        start = self._start(batch)
        chunks = (key_positions - start).div(self.size, rounding_mode="floor")
        return (query_positions - start).div(self.size, rounding_mode="floor")[:, None] == chunks[None, :]

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        start = self._start(batch)
        first, last = (query_start - start) // self.size, (query_stop - 1 - start) // self.size
        visit = (first * self.size + start, (last + 1) * self.size + start)
        full = visit if first == last else (visit[0], visit[0])
        return Bounds.of(visit, full, (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any]:
        start = self._start(batch)
        return {"kind": "chunked", "size": self.size, **({"start": start} if start else {})}

    def fit(self, frame: Frame) -> Mask:
        if len(self.start) not in (1, frame.batch):
            raise InputError(
                "chunked", expected=f"one start, or one for each of {frame.batch} batch items", got=f"{len(self.start)}"
            )
        return self


@dataclass(frozen=True)
class Prefix(OfOneText):
    """The first `length` key positions: `key < length`; use it as `causal() | prefix(length)`."""

    length: tuple[int, ...]

    def _length(self, batch: int) -> int:
        return self.length[batch % len(self.length)]

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return (key_positions < self._length(batch))[None, :]

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        span = (key_start, self._length(batch))
        return Bounds.of(span, span, (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any]:
        return {"kind": "prefix", "length": self._length(batch)}

    def fit(self, frame: Frame) -> Mask:
        if len(self.length) not in (1, frame.batch):
            raise InputError(
                "prefix", expected=f"one length, or one for each of {frame.batch} texts", got=f"{len(self.length)}"
            )
        return self
