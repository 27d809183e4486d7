"""What a kernel is asked to do, and how a sweep is cut into strips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks.base import Bounds
from heedmap.statistics.base import Grid, Statistic

BEST_ELEMENTS = 2**19
"""Scores of a strip of short rows: with many more it outgrows the cache, and every pass over it slows down."""


@dataclass(frozen=True)
class Task:
    """One sweep: the inputs, what to measure, which rows, and how much memory a strip may take."""

    inputs: AttentionInputs
    statistics: tuple[Statistic, ...]
    grid: Grid
    rows: tuple[int, int]
    strip_bytes: int
    with_output: bool
    with_terms: bool = False
    """Whether a backward pass will follow, and want the kernel's terms of each row."""
    texts: AttentionInputs | None = None
    """The texts whose heads these inputs are, where they were folded into one."""

    def valid(self, batch: int, heads: slice, rows: slice) -> Tensor | None:
        """Which rows of a strip count, bool `[heads or 1, rows]`; None where all do."""
        if self.texts is None:
            valid = self.inputs.valid_queries
            return None if valid is None else valid[batch, None, rows]
        valid = self.texts.valid_queries
        if valid is None:
            return None
        lines = torch.arange(heads.start, heads.stop, device=valid.device)
        return valid[lines.div(self.texts.query_heads, rounding_mode="floor"), rows]


@dataclass(frozen=True)
class Swept:
    """What a sweep returns: the state of each statistic, and the output `[batch, heads, query, value_dim]`."""

    states: dict[str, Tensor]
    output: Tensor | None
    terms: Tensor | None = None
    """What the kernel's own backward pass takes; None where it computes it again."""


@dataclass(frozen=True)
class Block:
    """Rows, heads and keys (indices within the call) of one strip."""

    batch: int
    head_start: int
    head_stop: int
    row_start: int
    row_stop: int
    key_start: int
    key_stop: int
    full_start: int
    full_stop: int
    cell_rows: int


LEAST_ROWS = 64
"""Rows that a strip holds however long they are, where there is room: with fewer, reading the keys takes longer than
multiplying by them."""
MOST_ROWS = 256
UNIT_ROWS = 32
"""Rows whose sums are added up on their own; strips are cut between units, so that sums round alike in all of them."""


def strip_size(key_len: int, room: int, least_rows: int = LEAST_ROWS) -> tuple[int, int]:
    """Rows and scores of a strip that may hold `room` scores, where they are held."""
    elements = max(1, min(room, BEST_ELEMENTS + least_rows * key_len))
    return max(1, min(MOST_ROWS, elements // key_len)), elements


def sums_size(key_len: int, heads: int, room: int) -> tuple[int, int]:
    """Rows of a strip, and units of rows (of all its heads) that `room` numbers allow, two sums a key for each unit."""
    units = room // (4 * key_len)  # half of the room stays free
    rows = min(max(MOST_ROWS, units // heads * UNIT_ROWS), 4 * MOST_ROWS)
    return rows, units


def blocks(task: Task, tables: int, *, held: bool = True, least_rows: int = LEAST_ROWS) -> Iterator[Block]:
    """The strips of a task, of which `tables` numbers are held for each score.

    Rows are cut by the lengths and the item's own mask, so that what a row gives does not depend on what else is in the
    batch; heads share a strip where there is room. Where no scores are `held`, but only two sums a key for each unit of
    rows, strips are as large as these allow. A strip visits the keys of all its rows, so where a row sees few of them,
    strips are low.
    """
    inputs = task.inputs
    room = task.strip_bytes // inputs.compute_dtype.itemsize
    rows, elements = strip_size(inputs.key_len, room // tables, least_rows)
    units = 0
    if not held:
        rows, units = sums_size(inputs.key_len, inputs.query_heads, room)
    for batch in range(inputs.batch):
        low = min(rows, _low(inputs, batch, *task.rows))
        if low > UNIT_ROWS:
            low = low // UNIT_ROWS * UNIT_ROWS
        for start, stop, height in task.grid.rows.blocks(*task.rows, low, UNIT_ROWS):
            bounds = _bounds(inputs, batch, start, stop)
            if held:
                visited = bounds.visit_stop - bounds.visit_start
                heads = _heads_together(inputs, elements // max(1, (stop - start) * visited))
            else:
                heads = max(1, units // -(-(stop - start) // UNIT_ROWS))
            for head in range(0, inputs.query_heads, heads):
                yield Block(
                    batch,
                    head,
                    min(head + heads, inputs.query_heads),
                    start,
                    stop,
                    bounds.visit_start,
                    bounds.visit_stop,
                    bounds.full_start,
                    bounds.full_stop,
                    height,
                )


def _low(inputs: AttentionInputs, batch: int, start: int, stop: int) -> int:
    """Rows of a strip at most: any number, or half the keys that one row sees where it sees less than half of all."""
    probed = [_bounds(inputs, batch, row, row + 1) for row in ((start + stop) // 2, stop - 1) if start <= row < stop]
    seen = max((bounds.visit_stop - bounds.visit_start for bounds in probed), default=inputs.key_len)
    return max(2 * LEAST_ROWS, seen // 2) if 2 * seen <= inputs.key_len else max(1, stop - start)


def _bounds(inputs: AttentionInputs, batch: int, start: int, stop: int) -> Bounds:
    if inputs.mask is None:
        return Bounds(0, inputs.key_len, 0, inputs.key_len)
    first = inputs.key_offset
    rows = start + inputs.query_offset, stop + inputs.query_offset
    found = inputs.mask.bounds(batch, *rows, first, first + inputs.key_len)
    if found.visit_stop == found.visit_start:
        return Bounds(0, 1, 0, 0)  # one hidden key is visited, so that no strip is without keys
    return Bounds(
        found.visit_start - first, found.visit_stop - first, found.full_start - first, found.full_stop - first
    )


def _heads_together(inputs: AttentionInputs, room: int) -> int:
    """Heads in a strip: whole groups of heads that share a key head, or an even part of one group."""
    group = inputs.query_heads // inputs.key_heads
    if room >= group:
        return min(room // group * group, inputs.query_heads)
    return max(divisor for divisor in range(1, group + 1) if group % divisor == 0 and divisor <= max(1, room))
