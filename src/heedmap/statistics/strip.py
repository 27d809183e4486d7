"""A strip: some query rows of some heads against all keys they may see, with their final weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from heedmap.attention.inputs import AttentionInputs

T = TypeVar("T")

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
    """scores - top_score, at most 0; `GONE` where hidden."""
    weights: Tensor
    by_distance: Tensor
    """The weights, one distance a column, as `SkewBuffer.by_distance`."""
    scratch: Tensor
    """Room for one table of the size of `weights`, whose content means nothing."""
    top_score: Tensor
    """Largest score over real keys, `[heads, rows]`; −∞ where nothing is allowed."""
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
    """Rows that count, bool `[heads or 1, rows]`; None where all do."""
    segments: tuple[Segment, ...]
    """Where pairs are hidden; outside them all are allowed."""
    cell_rows: int
    """Rows of one row cell of the map; the strip holds whole cells of this height, or a part of one."""

    _once: dict[str, Any] = field(default_factory=dict, repr=False)

    def once(self, what: str, compute: Callable[[], T]) -> T:
        """What `compute` gives, computed once for this strip: for statistics that share work."""
        if what not in self._once:
            self._once[what] = compute()
        return self._once[what]

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
        """1 for each row that counts and 0 for the others, int64 `[heads or 1, rows]`."""
        if self.valid is None:
            return torch.ones(1, self.rows, dtype=torch.int64, device=self.weights.device)
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
        surprise = torch.mul(self.weights, self.shifted, out=self.scratch).sum(-1).neg_()
        if self.sink is None:
            return surprise
        above = (self.row_max - self.top_score).masked_fill(self.empty, 0)
        return surprise + above * self.row_mass

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Σ w, Σ w² and Σ w³ of each row without its top key, `[heads, rows]`.

        The top key is kept apart because 1 - w and the softmax's Jacobian lose all digits to cancellation when one
        weight is near 1.
        """
        index, largest = self.top[..., None], self.max_weight[..., None]
        self.weights.scatter_(-1, index, 0.0)
        squares = torch.mul(self.weights, self.weights, out=self.scratch)
        result = self.weights.sum(-1), squares.sum(-1), squares.mul_(self.weights).sum(-1)
        self.weights.scatter_(-1, index, largest)
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

    def span(self, segment: Segment) -> slice:
        """Where a segment's keys stand within the strip."""
        return slice(segment.start - self.key_start, segment.stop - self.key_start)

    @cached_property
    def visible(self) -> Tensor:
        """How many keys each row may see, int64 `[heads or 1, rows]`."""
        hidden = torch.zeros(1, self.rows, dtype=torch.int64, device=self.weights.device)
        for segment in self.segments:
            hidden = hidden + (~segment.allowed).sum(-1)
        return self.keys - hidden

    def pick(self, keys: Tensor) -> Tensor:
        """The weight of one key for each row (by index in the call), `[heads, rows]`; NaN where it may not be seen."""
        index = keys - self.key_start
        exists = (index >= 0) & (index < self.keys)
        index = index.clamp(0, self.keys - 1)[:, None]
        allowed = exists.expand(1, -1)
        for segment in self.segments:
            inside = (keys >= segment.start) & (keys < segment.stop)
            at = (keys - segment.start).clamp(0, segment.stop - segment.start - 1)[:, None]
            seen = segment.allowed.gather(-1, at.expand(segment.allowed.shape[0], -1, -1))[..., 0]
            allowed = allowed & (seen | ~inside)
        weights = self.weights.gather(-1, index.expand(self.weights.shape[0], -1, -1))[..., 0]
        return weights.masked_fill(~allowed, torch.nan)

    @cached_property
    def score_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each row's scores over the keys it may see, `[heads, rows]`."""
        table = self.scratch.copy_(self.shifted)
        count = self.visible.clamp_min(1)
        for segment in self.segments:
            table[..., self.span(segment)].masked_fill_(~segment.allowed, 0)
        mean = table.sum(-1) / count
        table.sub_(mean[..., None])
        for segment in self.segments:
            table[..., self.span(segment)].masked_fill_(~segment.allowed, 0)
        return mean + self.top_score, (table.square_().sum(-1) / count).sqrt()

    def top_keys(self, table: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The largest values of each row of a table ≥ 0 and their keys, sorted, the lower key first on ties.

        Returns:
            `(values, keys)`, `[heads, rows, count]`: keys as text positions; 0 and −1 where a row sees fewer.
        """
        if self.segments:
            table = table if table is self.scratch else self.scratch.copy_(table)
            for segment in self.segments:
                table[..., self.span(segment)].masked_fill_(~segment.allowed, -1)
        take = min(count, self.keys)
        values, index = table.topk(take, dim=-1)
        tied = (table >= values[..., -1:]).sum(-1) > take  # topk takes any of equal values: take the lower keys
        if bool(tied.any()):
            ordered = table[tied].sort(dim=-1, descending=True, stable=True)
            values[tied], index[tied] = ordered.values[:, :take], ordered.indices[:, :take]
        by_key = index.argsort(-1)
        values, index = values.gather(-1, by_key), index.gather(-1, by_key)
        by_value = values.argsort(dim=-1, descending=True, stable=True)
        values, index = values.gather(-1, by_value), index.gather(-1, by_value)
        keys = (index + self.key_start + self.inputs.key_offset).masked_fill(values < 0, -1)
        room = (0, count - take)
        return nn.functional.pad(values.clamp_min(0), room), nn.functional.pad(keys, room, value=-1)

    @cached_property
    def value_norms(self) -> Tensor:
        """‖v‖ of each key, `[heads, keys]`; 0 where a value holds NaN or infinity, which a hidden one may."""
        assert self.inputs.value is not None
        group = self.inputs.query_heads // self.inputs.key_heads
        heads = torch.arange(self.head_start, self.head_stop, device=self.weights.device) // group
        values = self.inputs.value[self.batch, :, self.key_start : self.key_stop].to(self.weights.dtype)
        return torch.linalg.vector_norm(values, dim=-1).nan_to_num(0, 0, 0)[heads]
