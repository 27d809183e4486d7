from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import GroupStatistic
from heedmap.statistics.dense import Dense


class ReceivedMax(GroupStatistic):
    """The largest weight that any row gives a key: a key that one query needs may receive little in all."""

    name = "received_max"
    axis = "key"
    reduction = "max"
    unit = "weight"
    formula = "max_q w"

    def definition(self, dense: Dense) -> Tensor:
        return dense.weights.amax(-2)
