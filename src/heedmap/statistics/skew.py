"""A table turned so that each column holds one distance, without moving a number."""

from __future__ import annotations

import torch
from torch import Tensor


class SkewBuffer:
    """Storage for a table `[heads, rows, keys]` whose columns and whose diagonals can both be summed.

    Each row is followed by `rows` zeros. Read with a row stride one longer, row r starts r places later, so that the
    pairs of one distance stand in one column; the zeros fill the corners.
    """

    def __init__(self, storage: Tensor, heads: int, rows: int, keys: int) -> None:
        per_head = rows * (rows + keys + 1)
        flat = storage.flatten()[: heads * per_head].unflatten(0, (heads, per_head))
        body = flat[:, rows:].unflatten(1, (rows, rows + keys))
        flat[:, :rows] = 0
        body[..., keys:] = 0
        self.table = body[..., :keys]
        """`[heads, rows, keys]`, to be written."""
        self.by_distance = flat.as_strided(
            (heads, rows, rows + keys - 1), (per_head, rows + keys + 1, 1), flat.storage_offset() + 1
        )
        """`[heads, rows, rows + keys - 1]`: column j holds key - row = j - (rows - 1), counted within the table."""

    @staticmethod
    def elements(heads: int, rows: int, keys: int) -> int:
        """Numbers that the storage must hold."""
        return heads * rows * (rows + keys + 1)

    @classmethod
    def of(cls, table: Tensor) -> Tensor:
        """A copy of `[heads, rows, keys]` by distance."""
        buffer = cls(torch.empty(cls.elements(*table.shape), dtype=table.dtype, device=table.device), *table.shape)
        buffer.table.copy_(table)
        return buffer.by_distance
