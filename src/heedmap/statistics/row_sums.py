from __future__ import annotations

import torch
from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class RowMax(RowStatistic):
    """The largest score of a query, the sink's logit included; with `row_sum` it gives any weight exactly."""

    name = "row_max"
    unit = "logit"
    over_rows = "none"
    formula = "m = max_k s"

    def term(self, strip: Strip) -> Tensor:
        return strip.row_max

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out(dense.logits.amax(-1))


class RowSum(RowStatistic):
    """The sum of exponentials of a query, the sink's included: w = e^(s - m) / l."""

    name = "row_sum"
    unit = "1"
    over_rows = "none"
    formula = "l = Σ e^(s - m)"

    def term(self, strip: Strip) -> Tensor:
        return strip.row_sum

    def definition(self, dense: Dense) -> Tensor:
        largest = dense.logits.amax(-1, keepdim=True)
        shifted = dense.logits - torch.where(largest == -torch.inf, 0, largest)
        return dense.left_out(shifted.exp().sum(-1))


class RowMass(RowStatistic):
    """What the real keys of a query receive in all: 1, less the sink's share; 0 for a query with no allowed key."""

    name = "row_mass"
    unit = "weight"
    formula = "Σ_k w"

    def term(self, strip: Strip) -> Tensor:
        return strip.row_mass

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out(dense.weights.sum(-1))
