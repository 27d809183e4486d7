from __future__ import annotations

from torch import Tensor

from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class Saturation(RowStatistic):
    """How much a query's weights still answer to its scores: near 0 the softmax is saturated and passes no gradient.

    The Frobenius norm of the softmax's Jacobian, from the top weight a and the sums over the other keys:
    a²(1 - a)² + (1 + 2a²)·Σ'w² - 2·Σ'w³ + (Σ'w²)², which has no cancellation near a = 1.
    """

    name = "saturation"
    unit = "1"
    formula = "‖diag(w) - w wᵀ‖_F = √(Σw² - 2Σw³ + (Σw²)²)"
    source = "calculus: ∂w_i/∂s_j = w_i·(δ_ij - w_j)"

    def term(self, strip: Strip) -> Tensor:
        top = strip.max_weight
        _, squares, cubes = strip.moments
        norm = (top * strip.rest) ** 2 + squares * (1 + 2 * top**2) - 2 * cubes + squares**2
        return norm.clamp_min(0).sqrt()

    def definition(self, dense: Dense) -> Tensor:
        top = dense.weights.argmax(-1, keepdim=True)
        a = dense.weights.gather(-1, top)[..., 0]
        others = dense.weights.scatter(-1, top, 0)
        squares, cubes = (others**2).sum(-1), (others**3).sum(-1)
        return dense.left_out(
            ((a * (others.sum(-1) + dense.sink)) ** 2 + squares * (1 + 2 * a**2) - 2 * cubes + squares**2).sqrt()
        )
