"""The mask of a text that was read in several passes, from the masks of the passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from heedmap.attention.masks.base import ALL_HEADS, Bounds, Frame, Mask
from heedmap.capture.lazy_mask import LazyMask


@dataclass
class Stretch:
    """Query rows from text position `start` on, up to the next stretch, which one kind of mask holds for."""

    start: int
    mask: LazyMask
    kind: tuple[dict[str, Any] | None, ...]


class Stretches:
    """Gathers the masks of passes: those that say the same, such as causal, become one."""

    def __init__(self) -> None:
        self._stretches: list[Stretch] = []

    def add(self, mask: LazyMask, key_len: int) -> None:
        """Take the mask of the next pass."""
        structure = mask.structure(mask.key_offset, mask.key_offset + key_len)
        kind = tuple(structure.describe(item) for item in range(mask.batch_size))
        self._stretches = [stretch for stretch in self._stretches if stretch.start < mask.query_offset]
        if self._stretches and None not in kind and self._stretches[-1].kind == kind:
            self._stretches[-1].mask = mask
        else:
            self._stretches.append(Stretch(mask.query_offset, mask, kind))

    def mask(self, start: int, stop: int, items: Sequence[int]) -> Mask | None:
        """The mask over the key positions `[start, stop)`; text s follows batch item `items[s]` of the passes."""
        if not self._stretches:
            return None
        parts = [(stretch.start, stretch.mask.structure(start, stop)) for stretch in self._stretches]
        batch = self._stretches[-1].mask.batch_size
        joined = parts[0][1] if len(parts) == 1 else ByRows(tuple(parts))
        return joined if list(items) == list(range(batch)) else OfItems(joined, tuple(items), batch)


class ByRows(Mask):
    """One mask for the rows up to a text position, another for those from there on, and so on."""

    why = "the prompt and what was generated have masks of their own"

    def __init__(self, parts: tuple[tuple[int, Mask], ...]) -> None:
        self._parts = parts
        self.per_head = any(mask.per_head for _, mask in parts)

    @property
    def biased(self) -> bool:
        return any(mask.biased for _, mask in self._parts)

    def fit(self, frame: Frame) -> Mask:
        return ByRows(tuple((start, mask.fit(frame)) for start, mask in self._parts))

    def _within(self, first: int, last: int) -> list[tuple[int, int, Mask]]:
        """`(start, stop, mask)` of the stretches that hold some of the rows `[first, last)`, cut to those."""
        starts = [min(first, self._parts[0][0]), *(start for start, _ in self._parts[1:])]
        spans = zip(starts, [*starts[1:], max(last, starts[-1])], self._parts, strict=True)
        cut = ((max(start, first), min(stop, last), mask) for start, stop, (_, mask) in spans)
        return [(start, stop, mask) for start, stop, mask in cut if start < stop]

    def _last_key(self, start: int, key_stop: int) -> int:
        """Rows of a stretch were read before the next began: they know no key from there on."""
        return min([key_stop, *(following for following, _ in self._parts[1:] if following > start)])

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return self._of_each("allowed", batch, query_positions, key_positions, heads)

    def same_text(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        return self._of_each("same_text", batch, query_positions, key_positions, heads)

    def _of_each(
        self, question: str, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice
    ) -> Tensor:
        """The answers of the stretches that the rows lie in, one below the other."""
        first, last = int(query_positions.min()), int(query_positions.max()) + 1
        rows: list[Tensor] = []
        for start, stop, mask in self._within(first, last):
            queries = query_positions[(query_positions >= start) & (query_positions < stop)]
            existing = key_positions < self._last_key(start, int(key_positions.max()) + 1)
            known = getattr(mask, question)(batch, queries, key_positions[existing], heads)
            known = torch.ones((), dtype=torch.bool, device=queries.device) if known is None else known
            known = (known if known.dim() == 3 else known[None]).expand(-1, len(queries), int(existing.sum()))
            may = torch.zeros(known.shape[0], len(queries), len(key_positions), dtype=torch.bool, device=known.device)
            may[:, :, existing] = known
            rows.append(may)
        most = max(part.shape[0] for part in rows)
        return torch.cat([part.expand(most, -1, -1) for part in rows], dim=1)

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        found = [
            mask.bounds(batch, start, stop, key_start, max(key_start, self._last_key(start, key_stop)))
            for start, stop, mask in self._within(query_start, query_stop)
        ]
        visit = (min(one.visit_start for one in found), max(one.visit_stop for one in found))
        full = (max(one.full_start for one in found), min(one.full_stop for one in found))
        return Bounds.of(visit, full, (key_start, key_stop))


class OfItems(Mask):
    """A mask whose batch items are those of a pass, for texts that each follow one of them."""

    why = "the mask was given as a tensor or as a function"

    def __init__(self, mask: Mask, items: tuple[int, ...], batch: int) -> None:
        self._mask = mask
        self._items = items
        self._batch = batch
        self.per_head = mask.per_head

    @property
    def biased(self) -> bool:
        return self._mask.biased

    def fit(self, frame: Frame) -> Mask:
        return OfItems(self._mask.fit(replace(frame, batch=self._batch)), self._items, self._batch)

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        return self._mask.allowed(self._items[batch], query_positions, key_positions, heads)

    def same_text(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        return self._mask.same_text(self._items[batch], query_positions, key_positions, heads)

    def bias(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        return self._mask.bias(self._items[batch], query_positions, key_positions, heads)

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        return self._mask.bounds(self._items[batch], query_start, query_stop, key_start, key_stop)

    def describe(self, batch: int = 0) -> dict[str, Any] | None:
        return self._mask.describe(self._items[batch])
