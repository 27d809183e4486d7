"""How many pairs each sum runs over (padding, windows and packing change it): the denominators of shares."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.statistics.base import Grid, Statistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.distance_profile import by_distance
from heedmap.statistics.maps import map_shape, pool
from heedmap.statistics.skew import SkewBuffer
from heedmap.statistics.strip import Strip


class PairCount(Statistic):
    """Allowed pairs of rows that count; one count for all heads where the mask is the same for all."""

    reduction = "sum"

    def dtype(self, inputs: AttentionInputs) -> torch.dtype:
        return torch.int64

    def heads(self, inputs: AttentionInputs) -> int:
        return inputs.query_heads if inputs.mask is not None and inputs.mask.per_head else 1

    def update(self, state: Tensor, strip: Strip, grid: Grid) -> None:
        counts = state[strip.batch]
        if counts.shape[0] == 1:
            if strip.head_start == 0:
                self.count(counts, strip, slice(None))
            return
        assert strip.inputs.mask is not None
        step = strip.inputs.mask.alike
        first = -(-strip.head_start // step) * step
        self.count(counts[first : strip.head_stop : step], strip, slice(first - strip.head_start, None, step))

    def count(self, counts: Tensor, strip: Strip, heads: slice) -> None:
        """Count for some heads of a strip."""
        counted, start = _of(strip.counted_rows, heads), strip.key_start
        for segment in strip.segments:
            if segment.start > start:
                self.count_all(counts, strip, counted, start, segment.start)
            allowed = _of(segment.allowed, heads).expand(-1, strip.rows, -1)
            if strip.valid is not None:
                allowed = allowed & _of(strip.valid, heads)[..., None]
            self.count_some(counts, strip, segment.start, allowed)
            start = segment.stop
        if strip.key_stop > start:
            self.count_all(counts, strip, counted, start, strip.key_stop)

    @abstractmethod
    def count_all(self, counts: Tensor, strip: Strip, rows: Tensor, start: int, stop: int) -> None:
        """Count keys `[start, stop)`, allowed for every row; `rows [heads or 1, rows]` is 1 for those that count."""

    @abstractmethod
    def count_some(self, counts: Tensor, strip: Strip, start: int, allowed: Tensor) -> None:
        """Count keys from `start` on, allowed as told: `[heads or 1, rows, keys]`."""


def _of(table: Tensor, heads: slice) -> Tensor:
    """Some heads of a table that holds one entry for each, or one for all."""
    return table if table.shape[0] == 1 else table[heads]


class RowsThatMaySee(PairCount):
    """How many rows that count may see a key."""

    name = "rows_that_may_see"
    axis = "key"
    unit = "rows"
    formula = "Σ_q [allowed]"

    def count_all(self, counts: Tensor, strip: Strip, rows: Tensor, start: int, stop: int) -> None:
        counts[:, start:stop] += rows.sum(-1, keepdim=True)

    def count_some(self, counts: Tensor, strip: Strip, start: int, allowed: Tensor) -> None:
        counts[:, start : start + allowed.shape[-1]] += allowed.sum(1)

    def definition(self, dense: Dense) -> Tensor:
        return dense.allowed.sum(-2)


class DistancePairs(PairCount):
    """How many pairs there are at each distance: allowed, of rows that count."""

    name = "distance_pairs"
    axis = "distance"
    unit = "pairs"
    formula = "Σ_{query - key = d} [allowed]"
    positional = True

    def count_all(self, counts: Tensor, strip: Strip, rows: Tensor, start: int, stop: int) -> None:
        # every row adds one to a run of distances: note where runs begin and end, then add up
        first = strip.row_start + strip.inputs.key_len - stop
        steps = torch.zeros(rows.shape[0], strip.rows + stop - start, dtype=torch.int64, device=counts.device)
        steps[:, : strip.rows] += rows
        steps[:, stop - start :] -= rows
        counts[:, first : first + steps.shape[1] - 1] += steps.cumsum(1)[:, :-1]

    def count_some(self, counts: Tensor, strip: Strip, start: int, allowed: Tensor) -> None:
        sums = SkewBuffer.of(allowed.to(torch.int32)).sum(1).flip(-1)
        first = strip.row_start + strip.inputs.key_len - start - allowed.shape[-1]
        counts[:, first : first + sums.shape[-1]] += sums

    def definition(self, dense: Dense) -> Tensor:
        return by_distance(dense.allowed.long())


class MapArea(Statistic):
    """Rows that count times keys of a cell, hidden pairs included: the denominator of `map_mean`."""

    name = "map_area"
    axis = "cell"
    reduction = "sum"
    unit = "pairs"
    formula = "rows · keys of a cell"

    def dtype(self, inputs: AttentionInputs) -> torch.dtype:
        return torch.int64

    def heads(self, inputs: AttentionInputs) -> int:
        return 1

    def update(self, state: Tensor, strip: Strip, grid: Grid) -> None:
        if strip.head_start:
            return
        by_cell = strip.counted_rows[0].unflatten(0, (-1, min(strip.cell_rows, strip.rows))).sum(1)
        first = grid.rows.cell_of(strip.row_start)
        state[strip.batch, 0, first : first + by_cell.shape[0]] += by_cell[:, None] * grid.keys.sizes().to(state.device)

    def definition(self, dense: Dense) -> Tensor:
        pairs = dense.valid[:, None, :, None].expand(-1, 1, -1, dense.inputs.key_len).long()
        return pool(pairs, *map_shape(dense), largest=False)
