"""The exact means of a softmax over Gaussian scores: against simulation, and against the two limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heedmap.experiments.gaussian_softmax import over_spreads, row_means

SAMPLES = 40_000


def simulated(n: int, spread: float) -> dict[str, np.ndarray]:
    scores = np.random.default_rng(0).normal(size=(SAMPLES, n)) * spread
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    square = (weights**2).sum(1)
    center = (weights * scores).sum(1, keepdims=True)
    return {
        "entropy": -(weights * np.log(np.maximum(weights, 1e-300))).sum(1),
        "largest": weights.max(1),
        "concentration": square,
        "jacobian": square - 2 * (weights**3).sum(1) + square**2,
        "along": (weights**2 * (scores - center) ** 2).sum(1) / spread**2,
    }


@pytest.mark.parametrize(("n", "spread"), [(2, 1.0), (3, 8.0), (10, 0.3), (100, 1.0), (100, 8.0), (400, 3.0)])
def test_means_are_those_of_a_simulation(n: int, spread: float) -> None:
    exact = row_means(n, spread)
    for name, values in simulated(n, spread).items():
        error = values.std() / math.sqrt(SAMPLES)
        assert abs(float(getattr(exact, name)) - values.mean()) < 4 * error + 1e-9, name


def test_warm_phase_is_half_the_variance_below_uniform() -> None:
    n, spread = 100_000, 0.7
    assert row_means(n, spread).entropy == pytest.approx(math.log(n) - spread**2 / 2, abs=1e-4)


def test_frozen_phase_falls_with_one_over_the_spread() -> None:
    assert row_means(100, 60.0).entropy * 60 == pytest.approx(row_means(100, 30.0).entropy * 30, rel=0.05)


def test_equal_scores_are_the_uniform_limit() -> None:
    means = row_means(50, 0.02)
    assert means.entropy == pytest.approx(math.log(50), abs=3e-4)
    assert means.concentration == pytest.approx(1 / 50, rel=1e-3)
    assert means.jacobian == pytest.approx(1 / 50 - 1 / 50**2, rel=1e-3)


def test_one_key_takes_everything() -> None:
    means = row_means(1, 5.0)
    assert (means.entropy, means.largest, means.jacobian) == (0.0, 1.0, 0.0)


def test_the_curve_over_spreads_is_the_quadrature() -> None:
    curve = over_spreads(100, 40.0)
    for spread in (0.1, 1.0, 5.5, 33.0):
        found, exact = curve(np.array([spread])), row_means(100, spread)
        assert found.entropy[0] == pytest.approx(exact.entropy, abs=2e-5)
        assert found.largest[0] == pytest.approx(exact.largest, abs=2e-5)


def test_beyond_the_last_spread_the_limit_is_followed() -> None:
    curve = over_spreads(100, 1000.0)
    assert curve(np.array([128.0])).entropy[0] == pytest.approx(row_means(100, 64.0).entropy / 2, rel=1e-3)
    assert curve(np.array([1e9])).largest[0] == pytest.approx(1.0)
