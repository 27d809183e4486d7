"""A statistic is a GROUP BY over the table (query, key, weight): an axis, a reduction, and a term over a strip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.measurements import DIMENSIONS, Axis, Quantity, Reduction
from heedmap.statistics.cells import Cells
from heedmap.statistics.dense import Dense
from heedmap.statistics.skew import SkewBuffer
from heedmap.statistics.strip import Strip


@dataclass(frozen=True)
class Grid:
    """Sizes of what is kept of a call: query rows and keys in at most `map_size` cells each, `top` keys of each row."""

    rows: Cells
    keys: Cells
    top: int

    @classmethod
    def of(cls, inputs: AttentionInputs, map_size: int = 256, top: int = 10) -> Grid:
        return cls(Cells(inputs.query_len, map_size), Cells(inputs.key_len, map_size), min(top, inputs.key_len))


class Statistic(ABC):
    """One measure of attention: `SELECT axis, reduction(term) FROM attention GROUP BY axis`.

    Authors write the class attributes and a term (`RowStatistic`, `GroupStatistic`), and the `definition` from the full
    weights, to which every kernel is held. Shape, creation, update and merging follow from axis and reduction.
    """

    name: ClassVar[str]
    axis: ClassVar[Axis]
    reduction: ClassVar[Reduction]
    unit: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str] = ""
    positional: ClassVar[bool] = False
    """Whether it needs the distance between query and key, which cross-attention has not."""
    needs: ClassVar[Literal["", "value", "token_ids", "spans", "classes", "parts"]] = ""
    """What the inputs must hold beside query and key."""
    over_rows: ClassVar[Literal["mean", "max", "none"]] = "none"
    """How a value of each row becomes one value of a head; rows whose value is NaN are left out."""

    @abstractmethod
    def update(self, state: Tensor, strip: Strip, grid: Grid) -> None:
        """Take one strip into the state."""

    @abstractmethod
    def definition(self, dense: Dense) -> Tensor:
        """The same from the full float64 weights, `[batch, head, …]`."""

    def dtype(self, inputs: AttentionInputs) -> torch.dtype:
        return inputs.compute_dtype

    def heads(self, inputs: AttentionInputs) -> int:
        return inputs.query_heads

    def further(self, inputs: AttentionInputs, grid: Grid) -> tuple[str, tuple[str, ...]] | None:
        """One more dimension after those of the axis, and the names along it."""
        return None

    def start(self, inputs: AttentionInputs, grid: Grid) -> Tensor:
        """The state before the first strip."""
        return torch.zeros(self.shape(inputs, grid), dtype=self.dtype(inputs), device=inputs.query.device)

    def shape(self, inputs: AttentionInputs, grid: Grid) -> tuple[int, ...]:
        """`[batch, head, …]`, by the axis."""
        size: tuple[int, ...] = {
            "query": (inputs.query_len,),
            "key": (inputs.key_len,),
            "distance": (inputs.query_len + inputs.key_len - 1,),
            "cell": (grid.rows.count, grid.keys.count),
        }[self.axis]
        further = self.further(inputs, grid)
        if further is not None:
            size = (*size, len(further[1]))
        return inputs.batch, self.heads(inputs), *size

    def finish(self, state: Tensor, inputs: AttentionInputs, grid: Grid) -> Quantity:
        """The state as a result."""
        values: np.ndarray = state.cpu().numpy()
        further = self.further(inputs, grid)
        name, labels = ((), ()) if further is None else ((further[0],), further[1])
        axes = (*DIMENSIONS[self.axis], *name)
        return Quantity(values, axes, self.axis, self.unit, self.reduction, labels, self.over_rows)


class RowValues(Statistic):
    """A statistic of each query row, `[batch, head, query, …]`; a strip holds whole rows, so its values are final.

    A row whose value is NaN has nothing to say (no previous token, no earlier copy) and is left out of means.
    """

    axis = "query"
    reduction = "row"

    @abstractmethod
    def values(self, strip: Strip, grid: Grid) -> Tensor:
        """`[heads, rows, …]`."""

    def missing(self) -> float:
        """The value of rows that are left out."""
        return float("nan")

    def start(self, inputs: AttentionInputs, grid: Grid) -> Tensor:
        shape, dtype = self.shape(inputs, grid), self.dtype(inputs)
        return torch.full(shape, self.missing(), dtype=dtype, device=inputs.query.device)

    def update(self, state: Tensor, strip: Strip, grid: Grid) -> None:
        rows = state[strip.batch, strip.head_start : strip.head_stop, strip.row_start : strip.row_stop]
        rows.copy_(self.values(strip, grid))
        if strip.valid is not None:
            rows.masked_fill_((~strip.valid)[(..., *(None,) * (rows.dim() - 2))], self.missing())


class RowStatistic(RowValues):
    """One number for each query row, which its author writes as a term over the strip: `[heads, rows]`."""

    over_rows = "mean"

    @abstractmethod
    def term(self, strip: Strip) -> Tensor: ...

    def values(self, strip: Strip, grid: Grid) -> Tensor:
        return self.term(strip)


class GroupStatistic(Statistic):
    """A statistic grouped by key, distance or cell: a term for each pair, `[heads, rows, keys]`, and SUM or MAX.

    The term is the weight unless an author says otherwise. It must be 0 for hidden pairs and rows that are left out,
    and may not be negative under MAX. Sums are fp32 within a strip and fp64 across strips, in a fixed order.
    """

    def term(self, strip: Strip) -> Tensor:
        return strip.weights

    def dtype(self, inputs: AttentionInputs) -> torch.dtype:
        return torch.float64 if self.reduction == "sum" else inputs.compute_dtype

    def update(self, state: Tensor, strip: Strip, grid: Grid) -> None:
        heads = state[strip.batch, strip.head_start : strip.head_stop]
        if self.axis == "distance":
            self._by_distance(heads, strip)
        elif self.axis == "key":
            self._by_key(heads[:, strip.key_start : strip.key_stop], strip)
        else:
            self._by_cell(heads, strip, grid)

    def _by_distance(self, heads: Tensor, strip: Strip) -> None:
        term = self.term(strip)
        table = strip.by_distance if term is strip.weights else SkewBuffer.of(term)
        last = strip.row_start - strip.key_start + strip.inputs.key_len - 1 + strip.rows
        target = heads[:, last - table.shape[-1] : last]
        if self.reduction == "sum":
            target += table.sum(1).flip(-1)
        else:
            torch.maximum(target, table.amax(1).flip(-1), out=target)

    def _by_key(self, target: Tensor, strip: Strip) -> None:
        if self.reduction == "sum":
            target += self._columns(strip).double().sum(1)
        else:
            torch.maximum(target, self._columns(strip).amax(1), out=target)

    def _by_cell(self, heads: Tensor, strip: Strip, grid: Grid) -> None:
        first = grid.rows.cell_of(strip.row_start)
        columns = self._columns(strip)
        target = heads[:, first : first + columns.shape[1]]
        if self.reduction == "sum":
            target += grid.keys.pool(columns.double(), strip.key_start, largest=False)
        else:
            torch.maximum(target, grid.keys.pool(columns, strip.key_start, largest=True), out=target)

    def _columns(self, strip: Strip) -> Tensor:
        """The term reduced over the rows of each row cell: `[heads, cells, keys]`."""
        term = self.term(strip)
        if term is strip.weights:
            return strip.column_sums if self.reduction == "sum" else strip.column_max
        return strip.by_cell(term).sum(2) if self.reduction == "sum" else strip.by_cell(term).amax(2)
