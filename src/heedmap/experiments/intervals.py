"""Confidence intervals: Student's over repeated measurements, and those of fitted power laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heedmap.heads.student import CONFIDENCE, student_quantile


@dataclass(frozen=True)
class Interval:
    """A mean with its interval of 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def root(self) -> Interval:
        """Square roots: of a mean of squares, a root mean square."""
        return Interval(*(math.sqrt(max(value, 0.0)) for value in (self.mean, self.low, self.high)))


def student(values: Sequence[float] | np.ndarray) -> Interval:
    """Interval of the mean of independent values; one value alone has none, and gets NaN."""
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return Interval(mean, math.nan, math.nan)
    half = student_quantile(len(array) - 1) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True)
class PowerLaw:
    """y = fixed + factor · n^exponent, fitted so that relative errors are least."""

    exponent: Interval
    fixed: float
    factor: float
    points: int


def fit_power(n: Sequence[float], y: Sequence[float], noise: float = 0.0) -> PowerLaw | None:
    """Fit cost against length; `fixed` ≥ 0 is what is paid whatever n is. None with fewer than 4 points.

    `noise` is an error in y that does not grow with it: a deviation counts relative to y + noise. The interval follows
    from the linearised fit with Student's t on points − 3 degrees of freedom.
    """
    lengths, costs = np.asarray(n, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(lengths) < 4 or bool((costs <= 0).any()):
        return None
    unit, weight = lengths / lengths.max(), 1 / (costs + noise)

    def solve(power: float) -> tuple[float, float, float]:
        design, target = np.stack([weight, unit**power * weight], axis=1), costs * weight
        (fixed, factor), *_ = np.linalg.lstsq(design, target, rcond=None)
        if fixed < 0:
            fixed, factor = 0.0, float(design[:, 1] @ target / (design[:, 1] @ design[:, 1]))
        return float(((design @ [fixed, factor] - target) ** 2).sum()), float(fixed), float(factor)

    power, width = 2.0, 2.0
    for _ in range(10):  # ever finer grids around the best power
        grid = np.linspace(max(power - width, 0.01), power + width, 41)
        power, width = float(grid[np.argmin([solve(trial)[0] for trial in grid])]), width / 10
    error, fixed, factor = solve(power)
    slopes = np.stack([np.ones_like(unit), unit**power, factor * unit**power * np.log(unit)]) * weight
    free = slopes if fixed > 0 else slopes[1:]
    freedom = len(costs) - len(free)
    covariance = np.linalg.pinv(free @ free.T) * error / max(freedom, 1)
    half = student_quantile(max(freedom, 1)) * math.sqrt(max(float(covariance[-1, -1]), 0.0))
    return PowerLaw(
        Interval(power, power - half, power + half), fixed, factor / float(lengths.max()) ** power, len(costs)
    )


def fit_line(n: Sequence[float], y: Sequence[float]) -> PowerLaw | None:
    """Fit y = factor · n^exponent by the median of the slopes between all pairs of points, on logarithmic axes.

    Nearly a third of the points may be anything without moving it far. The interval runs between two of the ordered
    slopes, as Kendall's rank correlation tells; no law of the errors is assumed. None with fewer than 5 points, which
    have no interval of 95 %. Source: Sen 1968, "Estimates of the regression coefficient based on Kendall's tau".
    """
    lengths, costs = np.asarray(n, dtype=np.float64), np.asarray(y, dtype=np.float64)
    rank = _outer_slopes(len(lengths))
    if rank == 0 or bool((costs <= 0).any()):
        return None
    first, second = np.triu_indices(len(lengths), 1)
    x, cost = np.log(lengths), np.log(costs)
    slopes = np.sort((cost[second] - cost[first]) / (x[second] - x[first]))
    power = float(np.median(slopes))
    factor = math.exp(float(np.median(cost - power * x)))
    return PowerLaw(Interval(power, float(slopes[rank - 1]), float(slopes[-rank])), 0.0, factor, len(lengths))


def _outer_slopes(points: int) -> int:
    """The largest d for which the true slope lies outside of the d-th from either end with at most 5 %; 0 for none.

    As many of the slopes are too small as a random order has inversions.
    """
    orders = np.ones(1)  # how many orders of the points have 0, 1, 2 … inversions
    for count in range(2, points + 1):
        orders = np.convolve(orders, np.ones(count))
    return int((np.cumsum(orders) / orders.sum() <= (1 - CONFIDENCE) / 2).sum())
