from __future__ import annotations

import torch
from torch import Tensor

from heedmap.statistics.base import GroupStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class ValueReceived(GroupStatistic):
    """What a key contributes to all rows, by length: a sink receives much and yet, its value short, says little."""

    name = "value_received"
    axis = "key"
    reduction = "sum"
    unit = "length of value"
    formula = "Σ_q ‖w v_k‖"
    source = "Kobayashi et al. 2020"
    needs = "value"

    def term(self, strip: Strip) -> Tensor:
        return torch.mul(strip.weights, strip.value_norms[:, None], out=strip.scratch)

    def definition(self, dense: Dense) -> Tensor:
        return (dense.weights * dense.value_norms[:, :, None]).sum(-2)
