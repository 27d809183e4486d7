from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import GroupStatistic
from heedmap.statistics.cells import Cells
from heedmap.statistics.dense import Dense


class MapSum(GroupStatistic):
    """The whole matrix, small: the weight in each cell; `map_mean` divides by the cell's area (its rows that count)."""

    name = "map_sum"
    axis = "cell"
    reduction = "sum"
    unit = "weight"
    formula = "Σ_{query, key in cell} w"

    def definition(self, dense: Dense) -> Tensor:
        return pool(dense.weights, *map_shape(dense), largest=False)


class MapMax(GroupStatistic):
    """The whole matrix, small: the largest weight in each cell, so that no single sharp pair is lost."""

    name = "map_max"
    axis = "cell"
    reduction = "max"
    unit = "weight"
    formula = "max_{query, key in cell} w"

    def definition(self, dense: Dense) -> Tensor:
        return pool(dense.weights, *map_shape(dense), largest=True)


def map_shape(dense: Dense, map_size: int = 256) -> tuple[int, int]:
    """Row cells and key cells of a map of the default size."""
    return min(map_size, dense.inputs.query_len), min(map_size, dense.inputs.key_len)


def pool(table: Tensor, rows: int, keys: int, largest: bool) -> Tensor:
    """`[batch, head, query, key]` pooled to `[batch, head, rows, keys]` cells."""
    by_key = Cells(table.shape[-1], keys).pool(table, 0, largest)
    return Cells(table.shape[-2], rows).pool(by_key.transpose(-2, -1), 0, largest).transpose(-2, -1)
