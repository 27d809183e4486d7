"""Counted, not measured: operations and bytes of attention, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels import native, strips
from heedmap.kernels.extension import extension
from heedmap.kernels.plan import MOST_ROWS, UNIT_ROWS, strip_size, sums_size
from heedmap.measure import MAP_SIZE, STRIP_BYTES
from heedmap.statistics.base import Grid
from heedmap.statistics.catalogue import choose

ROW_PASSES = 5
"""Operations of a softmax for each score: largest, difference, exponential, sum, quotient."""


@dataclass(frozen=True)
class Shape:
    """One attention call on every pair of n queries and n keys."""

    n: int
    heads: int = 1
    head_dim: int = 64
    key_heads: int = 0
    value_dim: int = 0
    itemsize: int = 4
    batch: int = 1

    @property
    def of_keys(self) -> int:
        return self.key_heads or self.heads

    @property
    def of_values(self) -> int:
        return self.value_dim or self.head_dim

    @property
    def cells(self) -> int:
        """Entries of all heads' matrices."""
        return self.batch * self.heads * self.n * self.n

    @property
    def product_operations(self) -> int:
        """Multiplications and additions of Q·Kᵀ (2·n²·d_k) and weights·V (2·n²·d_v)."""
        return 2 * self.cells * (self.head_dim + self.of_values)

    @property
    def softmax_operations(self) -> int:
        return ROW_PASSES * self.cells

    @property
    def input_bytes(self) -> int:
        """Query, key and value."""
        keys = self.of_keys * (self.head_dim + self.of_values)
        return self.batch * self.n * self.itemsize * (self.heads * self.head_dim + keys)

    @property
    def output_bytes(self) -> int:
        return self.batch * self.n * self.heads * self.of_values * self.itemsize


def eager_bytes(shape: Shape) -> int:
    """Scores and weights side by side, as the softmax reads one and writes the other; query times scale; output."""
    scaled = shape.batch * shape.n * shape.heads * shape.head_dim * shape.itemsize
    return 2 * shape.cells * shape.itemsize + scaled + shape.output_bytes


def sdpa_bytes(shape: Shape) -> int:
    """Output, and one logsumexp for each row."""
    return shape.output_bytes + 4 * shape.batch * shape.n * shape.heads


def sweep_bytes(shape: Shape, statistics: str | Sequence[str] = "default", kernel: str | None = None) -> int:
    """What `attend` holds beyond its inputs: statistics, output, the scaled query, and the work of a kernel.

    The kernel is by default the one that "auto" takes here. In half precision key and value are copied to float32.
    """
    keys = 4 * shape.batch * shape.n * shape.of_keys * (shape.head_dim + shape.of_values)
    query = 4 * shape.n * shape.heads * shape.head_dim
    copies = query + (0 if shape.itemsize == 4 else keys // shape.batch)
    if kernel is None:
        kernel = strips.NAME if extension() is None else native.NAME
    work = native_bytes(shape) if kernel == native.NAME else strip_bytes(shape)
    return state_bytes(shape, statistics) + shape.output_bytes + copies + work


def native_bytes(shape: Shape) -> int:
    """What the compiled pass works with.

    Where it multiplies too: keys and values packed, and while they are packed a copy of each, then two sums a key for
    each 32 rows of a strip's heads. Elsewhere the scores of one strip, and the sums.
    """
    module = extension()
    panel = 0 if module is None else module.panel()
    if not panel:
        return strip_bytes(shape, tables=1) + 16 * shape.n * -(-min(shape.n, MOST_ROWS) // UNIT_ROWS)
    columns = -(-shape.of_values // panel) * panel
    packed = 4 * shape.n * shape.of_keys * (shape.head_dim + columns)
    rows, units = sums_size(shape.n, shape.heads, STRIP_BYTES // 4)
    units_a_head = -(-min(rows, shape.n) // UNIT_ROWS)
    sums = 8 * shape.n * units_a_head * min(shape.heads, max(1, units // units_a_head))
    return packed + max(packed, sums)


def strip_bytes(shape: Shape, tables: int = strips.TABLES) -> int:
    """The tables of one strip, of at most 256 rows of as many heads as fit; of 64 where n is large."""
    rows, elements = strip_size(shape.n, STRIP_BYTES // (tables * 4))
    rows = min(rows, shape.n)
    heads = max(1, min(shape.heads, elements // (rows * shape.n)))
    return tables * 4 * heads * rows * (shape.n + rows)


def state_bytes(shape: Shape, statistics: str | Sequence[str] = "default") -> int:
    """What the statistics of one call take, counted on tensors without memory."""
    with FakeTensorMode():
        query = torch.empty(shape.batch, shape.heads, shape.n, shape.head_dim)
        key = torch.empty(shape.batch, shape.of_keys, shape.n, shape.head_dim)
        inputs = AttentionInputs(query, key)
        chosen, _ = choose(statistics, inputs)
        grid = Grid.of(inputs, MAP_SIZE)
        states = [statistic.start(inputs, grid) for statistic in chosen]
        return sum(state.numel() * state.element_size() for state in states)
