"""Intervals: Student's quantiles, their coverage, and fitted exponents."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heedmap.experiments.intervals import Interval, fit_line, fit_power, student
from heedmap.heads.student import student_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (5, 2.5706), (19, 2.0930), (1000, 1.9623)]
)
def test_quantiles_are_students(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=1e-3)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    draws = np.random.default_rng(1).normal(3.0, 2.0, size=(2000, 8))
    held = np.mean([student(row).holds(3.0) for row in draws])
    assert 0.935 < held < 0.965


def test_one_value_has_no_interval() -> None:
    assert student([4.0]).mean == 4.0
    assert math.isnan(student([4.0]).half)


def test_a_root_keeps_order() -> None:
    assert Interval(4.0, -1.0, 9.0).root() == Interval(2.0, 0.0, 3.0)


@pytest.mark.parametrize(("exponent", "fixed"), [(2.0, 0.0), (1.0, 5e6), (1.5, 1e5)])
def test_exponent_is_found_beside_a_fixed_cost(exponent: float, fixed: float) -> None:
    n = [2.0**power for power in range(8, 15)]
    noise = 1 + 0.002 * np.random.default_rng(2).normal(size=len(n))
    law = fit_power(n, [(fixed + 100 * length**exponent) * wobble for length, wobble in zip(n, noise, strict=True)])
    assert law is not None
    assert law.exponent.holds(exponent)
    assert law.exponent.half < 0.2


def test_too_few_points_are_not_fitted() -> None:
    assert fit_power([1, 2, 4], [1, 2, 4]) is None


def test_a_line_is_found_whatever_one_point_says() -> None:
    n = [2.0 ** (12 + half / 2) for half in range(7)]
    seconds = [3e-9 * length**2 for length in n]
    seconds[-1] *= 2.2
    law = fit_line(n, seconds)
    assert law is not None
    assert law.exponent.mean == pytest.approx(2.0, abs=1e-9)
    assert law.factor == pytest.approx(3e-9)
    assert law.exponent.low == pytest.approx(2.0)
    assert law.exponent.high < 3


def test_intervals_of_lines_hold_the_truth_as_often_as_they_say() -> None:
    n = 2.0 ** np.arange(9)
    draws = np.exp(np.random.default_rng(3).standard_t(3, size=(1000, 9)) * 0.1)
    held = np.mean(
        [law.exponent.holds(2.0) for row in draws if (law := fit_line(n.tolist(), (row * n**2).tolist())) is not None]
    )
    assert 0.94 < held < 0.985  # orders come in steps, so a little more than 95 %


def test_a_line_through_fewer_than_5_points_has_no_interval_and_is_not_told() -> None:
    assert fit_line([1, 2, 4, 8], [1, 2, 4, 8]) is None
    assert fit_line([1, 2, 4, 8, 16], [1, 2, 4, 8, 16]) is not None
