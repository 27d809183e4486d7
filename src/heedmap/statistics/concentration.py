from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class Concentration(RowStatistic):
    """How few keys hold a query's attention: 1 for one key, 1/keys for all alike; its inverse counts effective keys."""

    name = "concentration"
    unit = "1"
    formula = "Σ w²"
    source = "Simpson 1949; Herfindahl–Hirschman index"

    def term(self, strip: Strip) -> Tensor:
        return strip.max_weight**2 + strip.moments[1]

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out((dense.weights**2).sum(-1))
