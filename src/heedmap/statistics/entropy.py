from __future__ import annotations

import torch
from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class Entropy(RowStatistic):
    """How widely a query spreads its attention: 0 for one key, ln(keys) for all alike.

    With sinks the entropy is that of the whole distribution, the sink's own share included.
    """

    name = "entropy"
    unit = "nats"
    formula = "H = -Σ w ln w = ln l + Σ w·(m - s)"
    source = "Shannon 1948; the second form has no cancellation: every term is ≥ 0"

    def term(self, strip: Strip) -> Tensor:
        entropy = strip.row_sum.log() + strip.surprise
        if strip.sink is not None:
            share = strip.sink_weight
            entropy = entropy - torch.where(share > 0, share * strip.sink, 0)
        return entropy.masked_fill(strip.row_sum == 0, 0).clamp_min_(0)

    def definition(self, dense: Dense) -> Tensor:
        whole = torch.cat([dense.weights, dense.sink[..., None]], dim=-1)
        return dense.left_out(-torch.xlogy(whole, whole).sum(-1))
