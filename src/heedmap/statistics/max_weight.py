from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class MaxWeight(RowStatistic):
    """The largest weight of a query."""

    name = "max_weight"
    unit = "weight"
    formula = "max_k w"

    def term(self, strip: Strip) -> Tensor:
        return strip.max_weight

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out(dense.weights.amax(-1))
