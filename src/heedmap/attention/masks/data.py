"""Masks that are data: padding, packed documents, a tensor of the caller, a function of the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heedmap.attention.checks import tensor
from heedmap.attention.masks.base import ALL_HEADS, Bounds, Frame, Mask
from heedmap.errors import InputError


class _ByPosition(Mask):
    """A mask read from one row of values for each batch item, one value for each key position."""

    def __init__(self, values: Tensor, key_offset: int = 0) -> None:
        self.values = values
        self.key_offset = key_offset

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.values,)

    def _row(self, batch: int) -> Tensor:
        return self.values[batch if self.values.shape[0] > 1 else 0]

    def _at(self, batch: int, positions: Tensor) -> Tensor:
        return self._row(batch).to(positions.device)[positions - self.key_offset]

    def fit(self, frame: Frame) -> Mask:
        batch, length = self.values.shape
        if batch not in (1, frame.batch) or length != frame.key_len:
            raise InputError(
                type(self).__name__.lower(),
                expected=f"values for [{frame.batch} or 1, {frame.key_len}] keys",
                got=f"{list(self.values.shape)}",
                do="give one value for each key of the call, real or padding",
            )
        return type(self)(self.values, frame.key_offset)


class Padding(_ByPosition):
    """Real keys only: `valid[batch, key]`."""

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return self._at(batch, key_positions)[None, :]

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        runs = self._runs(batch)
        if not runs:
            return Bounds(key_start, key_start, key_start, key_start)
        longest = max(runs, key=lambda run: run[1] - run[0])
        return Bounds.of((runs[0][0], runs[-1][1]), longest, (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any]:
        return {"kind": "padding", "valid": [list(run) for run in self._runs(batch)]}

    def _runs(self, batch: int) -> list[tuple[int, int]]:
        return [(start, stop) for start, stop, real in runs_of(self._row(batch), self.key_offset) if real]


class Packed(_ByPosition):
    """Keys of the query's own document: `document[query] == document[key]`."""

    def fit(self, frame: Frame) -> Mask:
        if frame.query_offset < frame.key_offset or frame.query_len + frame.query_offset > (
            frame.key_len + frame.key_offset
        ):
            raise InputError(
                "packed",
                expected="query positions among the key positions",
                got=f"queries from {frame.query_offset}, keys from {frame.key_offset}",
            )
        return super().fit(frame)

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return self._at(batch, query_positions)[:, None] == self._at(batch, key_positions)[None, :]

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        documents = self._row(batch)
        asked = documents[query_start - self.key_offset : query_stop - self.key_offset]
        low, high = int(asked.min()), int(asked.max())
        near = torch.nonzero((documents >= low) & (documents <= high)).flatten()
        visit = (int(near[0]) + self.key_offset, int(near[-1]) + 1 + self.key_offset)
        whole = low == high and visit[1] - visit[0] == near.numel()
        return Bounds.of(visit, visit if whole else (visit[0], visit[0]), (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any]:
        runs = runs_of(self._row(batch), self.key_offset)
        return {"kind": "packed", "documents": [[start, stop, value] for start, stop, value in runs]}


def runs_of(values: Tensor, offset: int = 0) -> list[tuple[int, int, int]]:
    """Stretches of equal values as `(start, stop, value)`."""
    if values.numel() == 0:
        return []
    kept, counts = torch.unique_consecutive(values, return_counts=True)
    stops = (torch.cumsum(counts, 0) + offset).tolist()
    starts = [offset, *stops[:-1]]
    return list(zip(starts, stops, [int(value) for value in kept.tolist()], strict=True))


class FromTensor(Mask):
    """A mask given whole, `[batch, heads, query, key]` with broadcast dimensions of 1; read by strips."""

    def __init__(
        self,
        allowed: Tensor,
        bias: Tensor | None,
        query_offset: int = 0,
        key_offset: int = 0,
        *,
        requires_grad: bool = False,
    ) -> None:
        self._allowed = allowed
        self._bias = bias
        self._query_offset = query_offset
        self._key_offset = key_offset
        self._requires_grad = requires_grad  # a bias that is all 0 is none, and asks all the same
        self.per_head = allowed.shape[1] > 1

    def tensors(self) -> tuple[Tensor, ...]:
        return (self._allowed,) if self._bias is None else (self._allowed, self._bias)

    @property
    def biased(self) -> bool:
        return self._bias is not None

    @property
    def requires_grad(self) -> bool:
        return self._requires_grad

    def fit(self, frame: Frame) -> Mask:
        wanted = (frame.batch, frame.heads, frame.query_len, frame.key_len)
        if any(have not in (1, want) for have, want in zip(self._allowed.shape, wanted, strict=True)):
            raise InputError(
                "from_tensor",
                expected=f"a mask that broadcasts to [batch, heads, query, key] = {list(wanted)}",
                got=f"{list(self._allowed.shape)}",
            )
        offsets = frame.query_offset, frame.key_offset
        return FromTensor(self._allowed, self._bias, *offsets, requires_grad=self._requires_grad)

    def _strip(self, table: Tensor, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice) -> Tensor:
        part = table[batch if table.shape[0] > 1 else 0]
        part = part[heads] if part.shape[0] > 1 else part
        if part.shape[1] > 1:
            part = part[:, (query_positions - self._query_offset).to(part.device)]
        if part.shape[2] > 1:
            part = part[:, :, (key_positions - self._key_offset).to(part.device)]
        return part.to(key_positions.device)

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return self._strip(self._allowed, batch, query_positions, key_positions, heads)

    def bias(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        if self._bias is None:
            return None
        return self._strip(self._bias, batch, query_positions, key_positions, heads)


MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Any]


class FromFunction(Mask):
    """`f(batch, head, query, key) -> bool` of index tensors that broadcast against one another."""

    per_head = True

    def __init__(self, function: MaskFunction, heads: int | None = None) -> None:
        self.function = function
        self._heads = heads

    def fit(self, frame: Frame) -> Mask:
        return FromFunction(self.function, frame.heads)

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        if self._heads is None:
            raise InputError("from_function", expected="a mask fitted to a call", got="no number of heads")
        device = key_positions.device
        which = torch.arange(self._heads, device=device)[heads]
        answer = self.function(
            torch.tensor(batch, device=device), which[:, None, None], query_positions[None, :, None], key_positions
        )
        answer = tensor("from_function", "the function's answer", answer, device)
        if answer.dtype != torch.bool:
            raise InputError(
                "from_function", expected="booleans (True = may attend)", got=f"{answer.dtype}", do="compare in f"
            )
        shape = (which.shape[0], query_positions.shape[0], key_positions.shape[0])
        try:
            return answer.expand(shape)
        except RuntimeError:
            raise InputError(
                "from_function",
                expected=f"an answer that broadcasts to [heads, queries, keys] = {list(shape)}",
                got=f"{list(answer.shape)}",
                do="compute it from the index tensors that the function is given",
            ) from None
