from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class MeanDistance(RowStatistic):
    """How far back a query looks on average; negative where it looks ahead. Sinks: not divided by the row mass."""

    name = "mean_distance"
    unit = "tokens"
    formula = "Σ_k w·(query - key)"
    positional = True

    def term(self, strip: Strip) -> Tensor:
        return strip.mean_distance

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out((dense.weights * dense.distance).sum(-1))
