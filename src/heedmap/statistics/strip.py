"""A strip: some query rows of some heads against all keys they may see, with their final weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs

GONE = -30_000.0
"""Shifted score of a hidden pair: finite, so that 0 · it is 0, and e to the power of it is 0 in any dtype."""


@dataclass(frozen=True)
class Segment:
    """Keys `[start, stop)` with hidden pairs; `allowed` is bool `[heads or 1, rows, stop - start]`."""

    start: int
    stop: int
    allowed: Tensor


@dataclass
class Strip:
    """Query rows `[row_start, row_stop)` of heads `[head_start, head_stop)` against keys `[key_start, key_stop)`.

    Indices count within the call, positions are text positions. `weights` and `shifted` are `[heads, rows, keys]` in
    the compute dtype and hold no NaN: the weight of a hidden pair is 0, and rows that are left out (`valid` False) have
    weight 0 everywhere. `row_max` (m) and `row_sum` (l) are kept apart: weights = exp(scores - m) / l.
    """

    inputs: AttentionInputs
    batch: int
    head_start: int
    head_stop: int
    row_start: int
    row_stop: int
    key_start: int
    key_stop: int
    shifted: Tensor
    """scores - row_max, at most 0."""
    weights: Tensor
    by_distance: Tensor
    """The weights, one distance a column, as `SkewBuffer.by_distance`."""
    scratch: Tensor
    """Room for one table of the size of `weights`, whose content means nothing."""
    row_max: Tensor
    """m, the largest score of a row, its sink included: `[heads, rows]`; −∞ where nothing is allowed."""
    row_sum: Tensor
    """l = Σ exp(scores - m), its sink included: `[heads, rows]`; 0 where nothing is allowed."""
    sink: Tensor | None
    """The sink's logit - m, `[heads, rows]`, or None."""
    top: Tensor
    """Index within the strip of the lowest key of largest score, `[heads, rows]`; 0 where nothing is allowed."""
    empty: Tensor
    """Rows in which no real key is allowed, bool `[heads, rows]`."""
    valid: Tensor | None
    """Rows that count, bool `[rows]`; None where all do."""
    segments: tuple[Segment, ...]
    """Where pairs are hidden; outside them all are allowed."""
    cell_rows: int
    """Rows of one row cell of the map; the strip holds whole cells of this height, or a part of one."""

    @property
    def rows(self) -> int:
        return self.row_stop - self.row_start

    @property
    def keys(self) -> int:
        return self.key_stop - self.key_start

    @cached_property
    def query_positions(self) -> Tensor:
        """Text positions of the rows, int64 `[rows]`."""
        offset = self.inputs.query_offset
        return torch.arange(self.row_start + offset, self.row_stop + offset, device=self.weights.device)

    @cached_property
    def key_positions(self) -> Tensor:
        """Text positions of the keys, int64 `[keys]`."""
        offset = self.inputs.key_offset
        return torch.arange(self.key_start + offset, self.key_stop + offset, device=self.weights.device)

    @cached_property
    def counted_rows(self) -> Tensor:
        """1 for each row that counts and 0 for the others, int64 `[rows]`."""
        if self.valid is None:
            return torch.ones(self.rows, dtype=torch.int64, device=self.weights.device)
        return self.valid.long()

    @cached_property
    def max_weight(self) -> Tensor:
        """Weight of the top key, `[heads, rows]`."""
        return self.weights.gather(-1, self.top[..., None])[..., 0]

    @cached_property
    def logsumexp(self) -> Tensor:
        """m + ln l, `[heads, rows]`; −∞ where nothing is allowed."""
        return self.row_max + self.row_sum.log()

    @cached_property
    def surprise(self) -> Tensor:
        """Σ w · (m - s) over real keys, `[heads, rows]`, every term ≥ 0."""
        return torch.mul(self.weights, self.shifted, out=self.scratch).sum(-1).neg_()

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Σ w, Σ w² and Σ w³ of each row without its top key, `[heads, rows]`.

        The top key is kept apart because 1 - w and the softmax's Jacobian lose all digits to cancellation when one
        weight is near 1.
        """
        index = self.top[..., None]
        self.weights.scatter_(-1, index, 0.0)
        squares = torch.mul(self.weights, self.weights, out=self.scratch)
        result = self.weights.sum(-1), squares.sum(-1), squares.mul_(self.weights).sum(-1)
        self.weights.scatter_(-1, index, self.max_weight[..., None])
        return result

    @cached_property
    def row_mass(self) -> Tensor:
        """Σ w over real keys, `[heads, rows]`: 1, less the sink's share."""
        return self.moments[0] + self.max_weight

    @cached_property
    def sink_weight(self) -> Tensor:
        """The sink's share, `[heads, rows]`; 0 without."""
        if self.sink is None:
            return torch.zeros_like(self.row_sum)
        return self.sink.exp() / torch.where(self.row_sum == 0, 1, self.row_sum)

    @cached_property
    def rest(self) -> Tensor:
        """1 - the top weight, summed from the other keys and the sink, `[heads, rows]`."""
        return self.moments[0] + self.sink_weight

    @cached_property
    def mean_distance(self) -> Tensor:
        """Σ w · (query position - key position), `[heads, rows]`."""
        origin = self.row_start + self.inputs.query_offset
        back = (origin - self.key_positions).to(self.weights.dtype)
        ahead = (self.query_positions - origin).to(self.weights.dtype)
        return self.weights @ back + ahead * self.row_mass

    @cached_property
    def column_sums(self) -> Tensor:
        """Σ of weights over the rows of each row cell, `[heads, cells, keys]`."""
        return self.by_cell(self.weights).sum(2)

    @cached_property
    def column_max(self) -> Tensor:
        """Largest weight over the rows of each row cell, `[heads, cells, keys]`."""
        return self.by_cell(self.weights).amax(2)

    def by_cell(self, table: Tensor) -> Tensor:
        """`[heads, rows, keys]` as `[heads, cells, rows of a cell, keys]`."""
        return table.unflatten(1, (-1, min(self.cell_rows, self.rows)))
