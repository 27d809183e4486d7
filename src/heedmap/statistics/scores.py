from __future__ import annotations

import torch
from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class ScoreMean(RowStatistic):
    """Mean of a query's scores (scaled, softcapped, with bias) over the keys it may see; NaN where there are none."""

    name = "score_mean"
    unit = "logit"
    formula = "mean_k s"

    def term(self, strip: Strip) -> Tensor:
        return strip.score_moments[0].masked_fill(strip.empty, torch.nan)

    def definition(self, dense: Dense) -> Tensor:
        return dense.left_out(mean_over_allowed(dense, dense.scores))


class ScoreStd(RowStatistic):
    """Standard deviation of a query's scores over the keys it may see (population form): what √d_k keeps near 1."""

    name = "score_std"
    unit = "logit"
    formula = "√(mean_k (s - mean_k s)²)"

    def term(self, strip: Strip) -> Tensor:
        return strip.score_moments[1].masked_fill(strip.empty, torch.nan)

    def definition(self, dense: Dense) -> Tensor:
        centred = dense.scores - mean_over_allowed(dense, dense.scores)[..., None]
        return dense.left_out(mean_over_allowed(dense, centred**2).sqrt())


class MaxScore(RowStatistic):
    """A query's largest score, sinks aside: the logit watched in training, whose growth foretells divergence.

    A head's value is the largest over its rows.
    """

    name = "max_score"
    unit = "logit"
    formula = "max_k s"
    over_rows = "max"
    source = "Dehghani et al. 2023 (attention logit growth)"

    def term(self, strip: Strip) -> Tensor:
        return strip.top_score.masked_fill(strip.empty, torch.nan)

    def definition(self, dense: Dense) -> Tensor:
        largest = dense.scores.amax(-1)
        return dense.left_out(largest.masked_fill(~dense.allowed.any(-1), torch.nan))


def mean_over_allowed(dense: Dense, table: Tensor) -> Tensor:
    """Mean of `[batch, head, query, key]` over the keys that a query may see; NaN where there are none."""
    return table.masked_fill(~dense.allowed, 0).sum(-1) / dense.allowed.sum(-1)
