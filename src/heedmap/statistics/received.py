from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import GroupStatistic
from heedmap.statistics.dense import Dense


class Received(GroupStatistic):
    """What a key receives from all rows that count; `received_mean` divides by the rows that may see the key."""

    name = "received"
    axis = "key"
    reduction = "sum"
    unit = "weight"
    formula = "Σ_q w"

    def definition(self, dense: Dense) -> Tensor:
        return dense.weights.sum(-2)
