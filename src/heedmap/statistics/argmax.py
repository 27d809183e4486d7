from __future__ import annotations

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class ArgMax(RowStatistic):
    """The key that a query attends to most, as a text position: the lowest one on ties, −1 where there is none."""

    name = "argmax"
    unit = "position"
    over_rows = "none"
    formula = "argmax_k s"

    def dtype(self, inputs: AttentionInputs) -> torch.dtype:
        return torch.int64

    def missing(self) -> float:
        return -1

    def term(self, strip: Strip) -> Tensor:
        return (strip.top + strip.key_start + strip.inputs.key_offset).masked_fill(strip.empty, -1)

    def definition(self, dense: Dense) -> Tensor:
        best = dense.scores.argmax(-1) + dense.inputs.key_offset
        return dense.left_out(best.masked_fill(~dense.allowed.any(-1), -1), -1)
