"""The cells of a map: n positions in R cells, the first n mod R of which hold one more (as `numpy.array_split`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Cells:
    """`length` positions in `min(length, at_most)` cells of nearly equal size."""

    length: int
    at_most: int

    @property
    def count(self) -> int:
        return min(self.length, self.at_most)

    @property
    def size(self) -> int:
        """Positions in the smaller cells."""
        return self.length // self.count

    @property
    def larger(self) -> int:
        """How many cells, the first ones, hold one position more."""
        return self.length % self.count

    def cell_of(self, position: int) -> int:
        split = self.larger * (self.size + 1)
        if position < split:
            return position // (self.size + 1)
        return self.larger + (position - split) // self.size

    def start_of(self, cell: int) -> int:
        return cell * self.size + min(cell, self.larger)

    def sizes(self) -> Tensor:
        """Positions in each cell, int64 `[count]`."""
        sizes = torch.full((self.count,), self.size, dtype=torch.int64)
        sizes[: self.larger] += 1
        return sizes

    def blocks(self, start: int, stop: int, at_most: int, unit: int = 1) -> Iterator[tuple[int, int, int]]:
        """Rows `[start, stop)` cut into `(start, stop, cell height)`: whole cells of one height, or a part of one.

        As many whole cells as fit in `unit` rows are not cut apart, if they fit in `at_most`.
        """
        while start < stop:
            cell = self.cell_of(start)
            height = self.start_of(cell + 1) - self.start_of(cell)
            if start == self.start_of(cell) and height <= min(at_most, stop - start):
                same = self.larger * (self.size + 1) if cell < self.larger else self.length
                together = max(1, unit // height) * height
                rows = min(stop - start, same - start) // height * height
                if rows > at_most:
                    rows = at_most // together * together or at_most // height * height
            else:
                rows = min(at_most, stop - start, self.start_of(cell + 1) - start)
            yield start, start + rows, height
            start += rows

    def pool(self, table: Tensor, start: int, largest: bool) -> Tensor:
        """`[..., keys]` of the positions from `start` on, added up (or the largest taken) by cell: `[..., count]`."""
        if table.shape[-1] != self.length:
            whole = table.new_zeros(*table.shape[:-1], self.length)
            whole[..., start : start + table.shape[-1]] = table
            table = whole
        split = self.larger * (self.size + 1)
        parts = [(table[..., :split], self.size + 1), (table[..., split:], self.size)]
        pooled = [part.unflatten(-1, (-1, size)) for part, size in parts if part.shape[-1]]
        return torch.cat([part.amax(-1) if largest else part.sum(-1) for part in pooled], dim=-1)
