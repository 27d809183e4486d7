from __future__ import annotations

import torch
from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class LogSumExp(RowStatistic):
    """The softmax's normaliser, the sink's logit included; −∞ for a query with no allowed key."""

    name = "logsumexp"
    unit = "logit"
    over_rows = "none"
    formula = "ln Σ e^s = m + ln l"

    def term(self, strip: Strip) -> Tensor:
        return strip.logsumexp

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out(torch.logsumexp(dense.logits, -1))
