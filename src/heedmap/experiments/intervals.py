"""Confidence intervals: Student's over repeated measurements, and those of a fitted power law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

CONFIDENCE = 0.95


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


@cache
def student_quantile(freedom: int) -> float:
    """How many standard errors the interval reaches to each side: with t = √ν tan θ, the density is cos^(ν−1) θ."""
    angle = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(float(np.interp(CONFIDENCE * area[-1], area, angle)))


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
