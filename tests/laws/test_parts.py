"""Laws about parts and wholes: merging, batches, strips of any size, and runs that repeat."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tests.laws.cases import CASES, MASKS, Case, random_inputs

from heedmap.attention import AttentionInputs, masks
from heedmap.errors import InputError
from heedmap.measure import KERNELS, attend, measure, sweep
from heedmap.measurements import Measurements

EACH = pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
NAMES = [name for name in MASKS if "bias" not in name] + ["bias"]


def skip_where_unsupported(inputs: AttentionInputs, kernel: str) -> None:
    module = next(module for module in KERNELS if kernel == module.NAME)
    reason = module.unsupported(inputs, ())
    if reason is not None:
        pytest.skip(f"{kernel} refuses this call: {reason}")


def assert_close(found: Measurements, expected: Measurements, tolerance: float) -> None:
    assert set(found) == set(expected)
    for name in expected:
        size = np.nanmax(np.abs(expected[name][np.isfinite(expected[name])]), initial=1.0)
        if expected.unit(name) == "tokens":  # a mean over distances rounds as the largest distance does
            size = max(size, np.abs(expected["distances"]).max())
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=tolerance * size, err_msg=name)


def assert_same_bits(found: Measurements, expected: Measurements) -> None:
    for name in expected:
        assert found[name].tobytes() == expected[name].tobytes(), name


@EACH
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parts_of_the_rows_merge_into_the_whole(case: Case, kernel: str) -> None:
    inputs = case.build()
    skip_where_unsupported(inputs, kernel)
    whole = sweep(inputs, kernel=kernel).measurements
    cuts = sorted({0, inputs.query_len, inputs.query_len // 3, inputs.query_len * 2 // 3})
    parts = [sweep(inputs, kernel=kernel, rows=rows).measurements for rows in itertools.pairwise(cuts)]
    merged = parts[-1]
    for part in parts[:-1]:
        merged = merged.merge(part)
    assert merged.rows == ((0, inputs.query_len),)
    assert_close(merged, whole, 2e-6)


@EACH
@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_a_second_run_gives_the_same_bits(case: Case, kernel: str) -> None:
    inputs = case.build()
    skip_where_unsupported(inputs, kernel)
    first, second = sweep(inputs, kernel=kernel), sweep(inputs, kernel=kernel)
    assert_same_bits(second.measurements, first.measurements)
    assert torch.equal(first.output.nan_to_num(), second.output.nan_to_num())


@EACH
@pytest.mark.parametrize("name", NAMES)
def test_rows_do_not_depend_on_what_else_is_in_the_batch(name: str, kernel: str) -> None:
    inputs = random_inputs(batch=2, heads=4, key_heads=2, mask=MASKS[name]())
    together = sweep(inputs, kernel=kernel)
    one = slice(1, 2)
    whole = torch.arange(40)
    table = torch.ones(1, 4, 40, 40, dtype=torch.bool)
    bias = torch.zeros(1, 4, 40, 40)
    table[0] = inputs.mask.allowed(1, whole, whole).expand(4, 40, 40)
    given = inputs.mask.bias(1, whole, whole)
    if given is not None:
        bias[0] = given
    alone = attend(
        inputs.query[one],
        inputs.key[one],
        inputs.value[one],
        mask=masks.from_tensor(bias.masked_fill(~table, -torch.inf)),
        kernel=kernel,
    )
    for key in ("entropy", "max_weight", "received", "distance_profile", "map_sum", "map_max"):
        np.testing.assert_allclose(together.measurements[key][1], alone.measurements[key][0], atol=2e-5)
    torch.testing.assert_close(together.output[one], alone.output)


@EACH
def test_a_text_gives_the_same_bits_alone_and_in_a_batch(kernel: str) -> None:
    inputs = random_inputs(batch=3, heads=4, query_len=300, mask=masks.causal())
    together = measure(inputs.query, inputs.key, mask=masks.causal(), kernel=kernel)
    for item in range(3):
        alone = measure(inputs.query[item][None], inputs.key[item][None], mask=masks.causal(), kernel=kernel)
        for name in ("entropy", "max_weight", "row_sum", "received", "distance_profile", "map_sum", "saturation"):
            assert together[name][item].tobytes() == alone[name][0].tobytes(), name


@EACH
@pytest.mark.parametrize("strip_bytes", [1, 20_000, 1_000_000, 2**30])
@pytest.mark.parametrize("name", ["everything", "causal", "window", "prefix", "tensor", "function"])
def test_results_do_not_depend_on_the_size_of_a_strip(name: str, strip_bytes: int, kernel: str) -> None:
    inputs = random_inputs(batch=2, heads=4, key_heads=2, mask=MASKS[name]())
    assert_close(
        sweep(inputs, kernel=kernel, strip_bytes=strip_bytes).measurements,
        sweep(inputs, kernel=kernel).measurements,
        2e-6,
    )


@EACH
@pytest.mark.parametrize("map_size", [1, 3, 7, 39, 40, 4096])
def test_maps_of_any_size_hold_the_same_mass(map_size: int, kernel: str) -> None:
    inputs = random_inputs(query_len=40, key_len=53, mask=masks.causal())
    found = sweep(inputs, kernel=kernel, map_size=map_size).measurements
    assert found["map_mean"].shape[-2:] == (min(map_size, 40), min(map_size, 53))
    np.testing.assert_allclose(found["map_sum"].sum((-2, -1)), 40, rtol=1e-6)
    assert found["map_area"].sum() == 40 * 53
    np.testing.assert_allclose(found["map_max"].max((-2, -1)), found["max_weight"].max(-1), rtol=1e-6)


def test_merging_the_same_rows_twice_is_refused() -> None:
    inputs = random_inputs()
    part = sweep(inputs, rows=(0, 20)).measurements
    with pytest.raises(InputError, match="rows 10 to 19 in both"):
        part.merge(sweep(inputs, rows=(10, 40)).measurements)


def test_merging_different_statistics_is_refused() -> None:
    inputs = random_inputs()
    part = sweep(inputs, rows=(0, 20)).measurements
    with pytest.raises(InputError, match="same statistics"):
        part.merge(sweep(inputs, "entropy", rows=(20, 40)).measurements)


def test_merging_different_calls_is_refused() -> None:
    part = sweep(random_inputs(), rows=(0, 20)).measurements
    with pytest.raises(InputError, match="one shape"):
        part.merge(sweep(random_inputs(heads=4), rows=(20, 40)).measurements)
