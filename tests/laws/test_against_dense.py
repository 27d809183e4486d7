"""Every statistic of every kernel equals its dense float64 definition, on every case."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
import torch
from tests.laws.budget import budget, error
from tests.laws.cases import CASES, Case, moved

from heedmap.attention import AttentionInputs
from heedmap.measure import KERNELS, Found, sweep
from heedmap.statistics import RATIOS, STATISTICS, choose
from heedmap.statistics.dense import Dense

DEVICE = os.environ.get("HEEDMAP_TEST_DEVICE", "cpu")
"""`make test-cuda` sets it to cuda: then every kernel that takes tensors there is held to the same oracle."""
KEYS = ("argmax", "top_keys", "value_top_keys")
KERNEL_NAMES = [kernel.NAME for kernel in KERNELS]
EVERY = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
EACH = pytest.mark.parametrize("kernel", KERNEL_NAMES)


@cache
def _inputs(case: Case) -> AttentionInputs:
    return case.build()


@cache
def _found(case: Case, kernel: str) -> Found:
    inputs = _inputs(case)
    module = next(module for module in KERNELS if kernel == module.NAME)
    reason = module.unsupported(moved(inputs, DEVICE), choose("all", inputs)[0])
    if reason is not None:
        pytest.skip(f"{kernel} refuses this call: {reason}")
    found = sweep(moved(inputs, DEVICE), "all", kernel)
    return Found(None if found.output is None else found.output.cpu(), found.measurements)


@cache
def _dense(case: Case, dtype: torch.dtype) -> Dense:
    return Dense.of(_inputs(case), dtype)


@EACH
@EVERY
@pytest.mark.parametrize("name", [name for name in STATISTICS if name not in KEYS])
def test_every_statistic_equals_its_dense_definition(case: Case, kernel: str, name: str) -> None:
    inputs = _inputs(case)
    statistic = STATISTICS[name]
    if inputs.cross and statistic.positional:
        assert name not in _found(case, kernel).measurements
        return
    found = _found(case, kernel).measurements[name]
    oracle = statistic.definition(_dense(case, torch.float64)).numpy()
    if found.dtype == np.int64:
        np.testing.assert_array_equal(np.broadcast_to(found, oracle.shape), oracle)
        return
    plain = statistic.definition(_dense(case, inputs.compute_dtype)).numpy()
    assert error(found, oracle) <= budget(plain, oracle, inputs)


@EACH
@EVERY
def test_argmax_is_a_largest_score_and_minus_one_where_there_is_none(case: Case, kernel: str) -> None:
    inputs, dense = _inputs(case), _dense(case, torch.float64)
    found = torch.from_numpy(_found(case, kernel).measurements["argmax"])
    none = (dense.left_out(dense.weights.sum(-1)).isnan()) | ~dense.allowed.any(-1)
    assert torch.equal(found == -1, none)
    index = (found - inputs.key_offset).clamp_min(0)
    chosen = dense.scores.gather(-1, index[..., None])[..., 0]
    largest = dense.scores.amax(-1)
    slack = torch.finfo(inputs.compute_dtype).eps * 64 * largest.abs().clamp_min(1)
    assert bool((none | (largest - chosen <= slack)).all())


@EACH
@EVERY
@pytest.mark.parametrize("kind", ["", "value_"])
def test_top_keys_are_sorted_each_once_and_hold_the_largest_values(case: Case, kernel: str, kind: str) -> None:
    inputs, dense, found = _inputs(case), _dense(case, torch.float64), _found(case, kernel).measurements
    keys, values = found[f"{kind}top_keys"], found[f"{kind}top_weights"]
    oracle = STATISTICS[f"{kind}top_keys"].definition(dense).numpy()
    table = dense.weights * dense.value_norms[:, :, None] if kind else dense.weights
    np.testing.assert_array_equal(keys < 0, oracle < 0)
    assert (np.diff(np.nan_to_num(values), axis=-1) <= 0).all()
    chosen = np.take_along_axis(table.numpy(), np.maximum(keys - inputs.key_offset, 0), -1)
    chosen[keys < 0] = 0
    expected = STATISTICS[f"{kind}top_weights"].definition(dense).nan_to_num().numpy()
    plain = STATISTICS[f"{kind}top_weights"].definition(_dense(case, inputs.compute_dtype)).nan_to_num().numpy()
    tolerance = 2 * budget(plain, expected, inputs)  # two keys whose weights are near may change places
    np.testing.assert_allclose(chosen, expected, rtol=0, atol=tolerance)
    for row in keys.reshape(-1, keys.shape[-1]):
        real = row[row >= 0]
        assert len(set(real.tolist())) == len(real)


@EACH
@EVERY
def test_output_equals_the_textbook_output_for_every_row(case: Case, kernel: str) -> None:
    inputs = _inputs(case)
    found = _found(case, kernel).output
    oracle = _dense(case, torch.float64).output
    plain = _dense(case, inputs.compute_dtype).output
    assert found is not None
    assert oracle is not None
    assert plain is not None
    assert found.dtype == inputs.query.dtype
    plain = plain.to(inputs.query.dtype).double().numpy()
    assert error(found.double().numpy(), oracle.numpy()) <= budget(plain, oracle.numpy(), inputs)


@EACH
@EVERY
def test_row_mass_is_shared_out_the_same_by_row_key_distance_and_cell(case: Case, kernel: str) -> None:
    measurements = _found(case, kernel).measurements
    mass = np.nansum(measurements["row_mass"], axis=-1, dtype=np.float64)
    tolerance = 1e-6 * max(1, measurements["row_valid"].shape[1])
    np.testing.assert_allclose(measurements["received"].sum(-1), mass, atol=tolerance)
    np.testing.assert_allclose(measurements["map_sum"].sum((-2, -1)), mass, atol=tolerance)
    np.testing.assert_allclose(
        (measurements["map_mean"] * measurements["map_area"]).sum((-2, -1)), mass, atol=tolerance
    )
    if "distance_profile" in measurements:
        np.testing.assert_allclose(measurements["distance_profile"].sum(-1), mass, atol=tolerance)
    if _inputs(case).sinks is None:
        counted = (measurements["row_valid"][:, None] & (measurements["argmax"] >= 0)).sum(-1)
        np.testing.assert_allclose(mass, counted, atol=tolerance)


@EACH
@EVERY
def test_pairs_are_counted_the_same_by_key_and_by_distance(case: Case, kernel: str) -> None:
    measurements = _found(case, kernel).measurements
    if "distance_pairs" in measurements:
        by_key, by_distance = (measurements[name].sum(-1) for name in ("rows_that_may_see", "distance_pairs"))
        np.testing.assert_array_equal(by_key, by_distance)


@EACH
@EVERY
def test_bounds_that_need_no_thought_hold(case: Case, kernel: str) -> None:
    measurements = _found(case, kernel).measurements
    rows = measurements["row_valid"]
    keys = max(1, _inputs(case).key_len) + (0 if _inputs(case).sinks is None else 1)
    for name, low, high in (
        ("entropy", 0, np.log(keys) + 1e-5),
        ("max_weight", 0, 1 + 1e-6),
        ("concentration", 0, 1 + 1e-6),
        ("row_mass", 0, 1 + 1e-5),
        ("saturation", 0, 0.75),
    ):
        values = measurements[name]
        assert np.isnan(values).sum() == (~rows).sum() * values.shape[1]
        assert np.nanmin(values, initial=0) >= low
        assert np.nanmax(values, initial=0) <= high


def test_the_list_of_cases_covers_every_ratio() -> None:
    measurements = _found(CASES[5], KERNEL_NAMES[0]).measurements
    assert set(RATIOS) <= set(measurements)
