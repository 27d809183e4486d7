"""Masks made of masks: `a & b`, `a | b`."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import torch
from torch import Tensor

from heedmap.attention.masks.base import ALL_HEADS, Bounds, Frame, Mask
from heedmap.errors import InputError


class _Pair(Mask):
    kind: str

    def __init__(self, left: Mask, right: Mask) -> None:
        for mask in (left, right):
            if not isinstance(mask, Mask):
                raise InputError(
                    "masks",
                    expected="two masks to combine",
                    got=type(mask).__name__,
                    do="wrap it: masks.from_tensor(…)",
                )
        self.left = left
        self.right = right
        self.per_head = left.per_head or right.per_head
        self.alike = gcd(*(mask.alike for mask in (left, right) if mask.per_head)) if self.per_head else 1

    @property
    def biased(self) -> bool:
        return self.left.biased or self.right.biased

    @property
    def requires_grad(self) -> bool:
        return self.left.requires_grad or self.right.requires_grad

    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.left.tensors(), *self.right.tensors())

    def fit(self, frame: Frame) -> Mask:
        return type(self)(self.left.fit(frame), self.right.fit(frame))

    def describe(self, batch: int = 0) -> dict[str, Any] | None:
        parts: list[dict[str, Any]] = []
        for mask in (self.left, self.right):
            part = mask.describe(batch)
            if part is None:
                return None
            parts.extend(part["of"] if part["kind"] == self.kind else [part])
        return {"kind": self.kind, "of": parts}


class And(_Pair):
    """Pairs that both masks allow; biases add up."""

    kind = "and"

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        left = self.left.allowed(batch, query_positions, key_positions, heads)
        return left & self.right.allowed(batch, query_positions, key_positions, heads)

    def same_text(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        left = self.left.same_text(batch, query_positions, key_positions, heads)
        return _both(left, self.right.same_text(batch, query_positions, key_positions, heads), torch.logical_and)

    def bias(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        left = self.left.bias(batch, query_positions, key_positions, heads)
        return _both(left, self.right.bias(batch, query_positions, key_positions, heads), torch.add)

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        left = self.left.bounds(batch, query_start, query_stop, key_start, key_stop)
        right = self.right.bounds(batch, query_start, query_stop, key_start, key_stop)
        visit = (max(left.visit_start, right.visit_start), min(left.visit_stop, right.visit_stop))
        full = (max(left.full_start, right.full_start), min(left.full_stop, right.full_stop))
        return Bounds.of(visit, full, (key_start, key_stop))


def _both(left: Tensor | None, right: Tensor | None, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    """What two masks say together, of which either may say nothing."""
    if left is None or right is None:
        return right if left is None else left
    return join(left, right)


class Or(_Pair):
    """Pairs that at least one of the masks allows."""

    kind = "or"

    def __init__(self, left: Mask, right: Mask) -> None:
        super().__init__(left, right)
        if left.biased or right.biased:
            raise InputError(
                "mask |",
                expected="masks that only hide",
                got="an additive mask",
                do="combine additive masks with &, where their values add up",
            )

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        left = self.left.allowed(batch, query_positions, key_positions, heads)
        return left | self.right.allowed(batch, query_positions, key_positions, heads)

    def same_text(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        left = self.left.same_text(batch, query_positions, key_positions, heads)
        right = self.right.same_text(batch, query_positions, key_positions, heads)
        return None if left is None or right is None else left | right

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        left = self.left.bounds(batch, query_start, query_stop, key_start, key_stop)
        right = self.right.bounds(batch, query_start, query_stop, key_start, key_stop)
        visits = [b for b in (left, right) if b.visit_stop > b.visit_start]
        if not visits:
            return Bounds(key_start, key_start, key_start, key_start)
        visit = (min(b.visit_start for b in visits), max(b.visit_stop for b in visits))
        full = max(
            ((b.full_start, b.full_stop) for b in (left, right)),
            key=lambda span: span[1] - span[0],
        )
        touching = left.full_start <= right.full_stop and right.full_start <= left.full_stop
        if touching and left.full_stop > left.full_start and right.full_stop > right.full_start:
            full = (min(left.full_start, right.full_start), max(left.full_stop, right.full_stop))
        return Bounds.of(visit, full, (key_start, key_stop))
