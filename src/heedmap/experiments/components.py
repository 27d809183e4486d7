"""Laws of the components of query and key: how to draw them, and what they say of a row's scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Law = Literal["gaussian", "uniform", "correlated"]
LAWS: tuple[Law, ...] = ("gaussian", "uniform", "correlated")
NODES = 48


@dataclass(frozen=True)
class RowLaw:
    """The spread of the scores of one row, over queries: spread `spread[i]` with probability `weight[i]`."""

    spread: np.ndarray
    weight: np.ndarray
    along: np.ndarray
    """Variance of the keys along the direction that decides the scores."""

    def mean(self, values: np.ndarray) -> float:
        return float((self.weight * values).sum())


@dataclass(frozen=True)
class Components:
    """Components of mean 0 and variance 1; with a correlation every two components of a vector share it."""

    law: Law
    correlation: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether a row's scores are exactly Gaussian; for uniform components they only come near, as d_k grows."""
        return self.law != "uniform"

    def draw(self, vectors: int, head_dim: int, generator: torch.Generator) -> Tensor:
        """float64 `[vectors, head_dim]`."""
        if self.law == "uniform":
            unit = torch.rand(vectors, head_dim, generator=generator, dtype=torch.float64)
            return (2 * unit - 1) * math.sqrt(3)
        own = torch.randn(vectors, head_dim, generator=generator, dtype=torch.float64)
        if self.law == "gaussian":
            return own
        shared = torch.randn(vectors, 1, generator=generator, dtype=torch.float64)
        return math.sqrt(self.correlation) * shared + math.sqrt(1 - self.correlation) * own

    def score_variance(self, head_dim: int) -> float:
        """Var(q·k) = ‖Σ‖² = d + d(d − 1)ρ²: d_k where components are independent."""
        rho = self.correlation if self.law == "correlated" else 0.0
        return head_dim + head_dim * (head_dim - 1) * rho**2

    def row_law(self, head_dim: int) -> RowLaw:
        """Given its query, a row's scores are N(0, qᵀΣq): with independent components N(0, |q|²), |q|² ~ χ²(d_k)."""
        if self.law == "uniform":  # |q|² has mean d and variance d(9/5 − 1); a gamma law with both
            spread, weight = _roots_of_gamma(head_dim / 0.8, 0.8)
            return RowLaw(spread, weight, np.ones_like(spread))
        if self.law == "gaussian" or head_dim == 1:
            spread, weight = _roots_of_gamma(head_dim / 2, 2)
            return RowLaw(spread, weight, np.ones_like(spread))
        big, small = 1 + (head_dim - 1) * self.correlation, 1 - self.correlation  # eigenvalues of Σ
        one, one_weight = _roots_of_gamma(0.5, 2)
        rest, rest_weight = _roots_of_gamma((head_dim - 1) / 2, 2)
        shared, own = np.meshgrid(one**2, rest**2, indexing="ij")
        variance = big**2 * shared + small**2 * own
        along = (big**3 * shared + small**3 * own) / variance
        weight = np.outer(one_weight, rest_weight)
        return RowLaw(np.sqrt(variance).ravel(), weight.ravel(), along.ravel())


def _roots_of_gamma(shape: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the square root of a gamma variable (Gauss–Legendre over where its mass lies)."""
    mean, deviation = shape * scale, math.sqrt(shape) * scale
    low = math.sqrt(max(0.0, mean - 8 * deviation))
    high = math.sqrt(mean + 8 * deviation + 20 * scale)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    roots = low + (high - low) * (nodes + 1) / 2
    logs = (2 * shape - 1) * np.log(roots) - roots**2 / scale
    density = weights * np.exp(logs - logs.max())
    return roots, density / density.sum()
