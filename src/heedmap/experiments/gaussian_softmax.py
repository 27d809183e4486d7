"""The softmax of n independent Gaussian scores N(0, σ²), exactly: mean entropy, largest weight, Jacobian, gradient.

With Z = Σ eˢ, every product of weights is a power of 1/Z, and 1/Zᴷ = (1/Γ(K)) ∫ tᴷ⁻¹ e^(−tZ) dt. Scores are
independent, so the mean of e^(−tZ) factorises, and with t = e⁻ˣ each mean over n scores is one integral:

    E[Π wᵢ^kᵢ sᵢ^pᵢ] = n(n−1)…(n−r+1) / Γ(K) · ∫ Π M(kᵢ, pᵢ; x) · φ(x)ⁿ⁻ʳ dx      (r different i, K = Σ kᵢ)
    M(k, p; x) = E[sᵖ · e^(k(s−x)) · exp(−e^(s−x))],    φ(x) = M(0, 0; x)
    E[ln Z] = ∫ exp(−e⁻ˣ) − φ(x)ⁿ dx

This holds for every n and σ: in the warm phase, where entropy is ln n − σ²/2, and in the frozen one (σ > √(2 ln n)),
where a few scores take everything. Source for the two phases: Derrida 1981, "Random-energy model"; the derivation is in
`docs/lessons/scaling.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
from numpy.polynomial import Chebyshev

LARGEST_SPREAD = 64.0
"""Beyond this spread every result follows its limit, 1/σ: two scores share the weight only where they nearly tie."""
SMALLEST_SPREAD = 0.02
DEGREE = 40


@dataclass(frozen=True)
class RowMeans:
    """Means over rows of n weights, each a number or an array over spreads."""

    entropy: np.ndarray
    """Nats."""
    largest: np.ndarray
    """Largest weight."""
    concentration: np.ndarray
    """Σ w²."""
    jacobian: np.ndarray
    """Squared Frobenius norm of the softmax's Jacobian diag(w) − wwᵀ."""
    along: np.ndarray
    """Σ w²(s − s̄)² / σ²: what the direction of the query itself adds to a gradient; s̄ = Σ w s."""


def row_means(n: int, spread: float) -> RowMeans:
    """Exact means for n scores N(0, spread²), by quadrature; spread from 0.02 to 64."""
    if n == 1:
        return RowMeans(*(np.array(value) for value in (0.0, 1.0, 1.0, 0.0, 0.0)))
    table = _Table(n, spread)
    mean = table.mean
    entropy = table.log_sum() - mean((1, 1))
    concentration = mean((2, 0))
    jacobian = concentration - 2 * mean((3, 0)) + mean((4, 0)) + mean((2, 0), (2, 0))
    cross = mean((3, 2)) + mean((1, 1), (2, 1))
    square = mean((4, 2)) + mean((2, 2), (2, 0)) + 2 * mean((3, 1), (1, 1)) + mean((1, 1), (1, 1), (2, 0))
    along = (mean((2, 2)) - 2 * cross + square) / spread**2
    return RowMeans(
        *(np.array(value) for value in (entropy, table.largest(), concentration, jacobian, max(along, 0.0)))
    )


class _Table:
    """M(k, p; x) on a grid of x, and the integrals over it; trapezoids, which converge exponentially here."""

    def __init__(self, n: int, spread: float) -> None:
        self.n = n
        step = min(spread / 12, 0.4)
        self.scores = np.arange(-8.5 * spread, 8.5 * spread + step, step)
        self.density = np.exp(-0.5 * (self.scores / spread) ** 2) * (step / (spread * math.sqrt(2 * math.pi)))
        self.density /= self.density.sum()
        lowest = np.interp(1e-15 ** (1 / n), np.cumsum(self.density), self.scores)  # below, all n are improbable
        self.x_step = 0.4
        self.x = np.arange(lowest - 4, self.scores[-1] + math.log(n) + 38, self.x_step)
        self.far = np.exp(np.minimum(self.scores - self.x[:, None], 50.0))  # [x, scores]
        self.kernel = np.exp(-self.far)
        self.moments: dict[tuple[int, int], np.ndarray] = {}
        term = self.kernel * self.density
        self.phi = np.minimum(term.sum(1), 1.0)
        for k in range(1, 5):
            term = term * self.far
            for p in range(3):
                self.moments[k, p] = term @ self.scores**p

    def mean(self, *terms: tuple[int, int]) -> float:
        """E[Π w^k s^p] over as many different scores as there are terms (k, p)."""
        if len(terms) > self.n:
            return 0.0
        product = np.prod([self.moments[term] for term in terms], axis=0)
        total = sum(k for k, _ in terms)
        integral = float((product * self.phi ** (self.n - len(terms))).sum()) * self.x_step
        return math.perm(self.n, len(terms)) / math.gamma(total) * integral

    def log_sum(self) -> float:
        """E[ln Z]; left of the grid φⁿ is 0."""
        left = np.arange(self.x[0] - self.x_step, -8.0, -self.x_step)
        gumbel = np.exp(-np.exp(-np.maximum(np.concatenate([left, self.x]), -8.0)))
        return float(gumbel.sum() - (self.phi**self.n).sum()) * self.x_step

    def largest(self) -> float:
        """E[max w]: the largest score m has weight e^m/Z, with all others below it."""
        term = self.kernel * self.density
        below = np.cumsum(term, axis=1) - term / 2 - np.gradient(term, axis=1) / 12  # ∫ up to m, to fourth order
        others = np.clip(below, 0, 1) ** (self.n - 1)
        return self.n * float((term * self.far * others).sum()) * self.x_step


def over_spreads(n: int, largest: float) -> Callable[[np.ndarray], RowMeans]:
    """`row_means` as a function of many spreads: Chebyshev polynomials in ln σ up to `largest`, then the limit 1/σ."""
    return _curve(n, min(2.0 ** math.ceil(math.log2(max(largest, 1.0))), LARGEST_SPREAD))


@cache
def _curve(n: int, top: float) -> Callable[[np.ndarray], RowMeans]:
    low, high = math.log(SMALLEST_SPREAD), math.log(top)
    angles = (np.arange(DEGREE + 1) + 0.5) * np.pi / (DEGREE + 1)
    nodes = low + (high - low) * (np.cos(angles) + 1) / 2
    found = [row_means(n, float(np.exp(node))) for node in nodes]
    names = [entry.name for entry in fields(RowMeans)]
    curves = {
        name: Chebyshev.fit(nodes, [float(getattr(row, name)) for row in found], DEGREE, domain=[low, high])
        for name in names
    }
    limits = {name: float(name in ("largest", "concentration")) for name in names}  # as σ → ∞: one weight is 1

    def evaluate(spread: np.ndarray) -> RowMeans:
        inside = np.clip(spread, SMALLEST_SPREAD, top)
        values = {name: curve(np.log(inside)) for name, curve in curves.items()}
        fade = inside / np.maximum(spread, inside)
        return RowMeans(**{name: limits[name] + (value - limits[name]) * fade for name, value in values.items()})

    return evaluate
