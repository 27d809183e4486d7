"""The native kernel: when it is chosen, whose threads it uses, and that nothing depends on how it runs."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from tests.laws.cases import CASES, random_inputs

from heedmap.attention import AttentionInputs, masks
from heedmap.attention.reference import scaled_dot_product_attention
from heedmap.errors import InputError, UnsupportedError
from heedmap.kernels import native
from heedmap.kernels.extension import extension, openmp_parallel
from heedmap.kernels.plan import Task
from heedmap.measure import attend, measure
from heedmap.statistics import choose
from heedmap.statistics.base import Grid

pytestmark = pytest.mark.skipif(extension() is None, reason="heedmap installed without its compiled part")
MODULE = extension()
SETS: list[str] = [] if MODULE is None else MODULE.instruction_sets()
SOME = [
    case for case in CASES if case.name in ("length 1025", "mask function", "softcap and sinks", "left-padded rows")
]


def swept(inputs: AttentionInputs, instruction_set: str | None = None, statistics: str | list[str] = "default"):
    chosen, _ = choose(statistics, inputs)
    task = Task(inputs, chosen, Grid.of(inputs), (0, inputs.query_len), 2**26, with_output=True)
    return native.sweep(task, instruction_set)


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_the_number_of_threads_changes_no_bit(case, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in (1, 2, 3):  # of the pass alone: small products of the matrix library do change with theirs
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append(swept(case.build()))
    for name, state in results[0].states.items():
        for other in results[1:]:
            assert state.numpy().tobytes() == other.states[name].numpy().tobytes(), name


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_every_instruction_set_gives_the_same_sweep(case) -> None:
    module = extension()
    assert module is not None
    sets = module.instruction_sets()
    plain = swept(case.build(), sets[-1])
    for name in sets[:-1]:
        other = swept(case.build(), name)
        for key, state in plain.states.items():
            torch.testing.assert_close(other.states[key], state, rtol=1e-5, atol=1e-5, equal_nan=True, msg=key)
        torch.testing.assert_close(other.output, plain.output, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("instruction_set", SETS)
def test_tensors_may_lie_in_memory_in_any_order(instruction_set: str) -> None:
    query, key, value = torch.randn(3, 2, 4, 70, 8)
    straight = swept(AttentionInputs(query, key, value, mask=masks.causal()), instruction_set)
    for apart in ((2, 3), (1, 3), (0, 3)):  # numbers of a vector are not side by side
        turned = [table.transpose(*apart).contiguous().transpose(*apart) for table in (query, key, value)]
        other = swept(AttentionInputs(*turned, mask=masks.causal()), instruction_set)
        for name, state in straight.states.items():
            torch.testing.assert_close(other.states[name], state, rtol=1e-5, atol=1e-5, equal_nan=True, msg=name)
        torch.testing.assert_close(other.output, straight.output, rtol=1e-5, atol=1e-5)


def test_it_is_chosen_for_float32_on_a_cpu_and_its_name_recorded() -> None:
    query = torch.randn(1, 2, 5, 8)
    assert measure(query, query).kernel == "native"
    assert attend(query, query, query).measurements.kernel == "native"
    assert measure(query.double(), query.double()).kernel == "strips"


def test_float64_is_refused_by_name() -> None:
    query = torch.randn(1, 1, 5, 8, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="would round to float32"):
        measure(query, query, kernel="native")


def test_without_its_compiled_part_torch_takes_over_and_asking_for_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "extension", lambda: None)
    query = torch.randn(1, 1, 5, 8)
    assert measure(query, query).kernel == "strips"
    with pytest.raises(UnsupportedError, match="heedmap doctor"):
        measure(query, query, kernel="native")


@pytest.mark.parametrize("kernel", ["native", "strips"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused_with_their_place(kernel: str, bad: float) -> None:
    query, key = torch.randn(2, 3, 50, 8), torch.randn(2, 3, 50, 8)
    query[1, 2, 41, 0] = bad
    with pytest.raises(InputError, match="NaN or infinity at batch 1, head 2, row 41"):
        measure(query, key, kernel=kernel)


@pytest.mark.parametrize("kernel", ["native", "strips"])
@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("side", ["query", "key"])
def test_infinity_is_refused_whatever_score_it_gives(side: str, bad: float, softcap: float | None, kernel: str) -> None:
    tensors = {"query": torch.rand(1, 2, 50, 8), "key": torch.rand(1, 2, 50, 8)}
    for sign in (1, -1):  # scores of +∞ and of -∞: a softcap makes a number of the one, the other reads as hidden
        spoiled = {name: tensor.clone() for name, tensor in tensors.items()}
        spoiled[side][0, 1, 41, 0] = bad * sign
        with pytest.raises(InputError, match=f"at batch 0, head 1, row {41 if side == 'query' else 0}"):
            measure(**spoiled, softcap=softcap, kernel=kernel)
        hidden = masks.padding(torch.arange(50) != 41)
        if side == "key":
            measure(**spoiled, softcap=softcap, kernel=kernel, mask=hidden)


@pytest.mark.parametrize("length", [70, 1300, 3000, 8300])
def test_a_statistic_of_ones_own_runs_on_the_same_strips(length: int) -> None:
    key_len = length if length < 3000 else 300
    inputs = random_inputs(
        heads=4, key_heads=2, query_len=length, key_len=key_len, mask=masks.causal(), softcap=3.0, sinks=[0.0] * 4
    )
    alone, among = swept(inputs), swept(inputs, statistics=["default", "score_mean"])
    for name, state in alone.states.items():
        assert state.numpy().tobytes() == among.states[name].numpy().tobytes(), name
    torch.testing.assert_close(alone.output, among.output, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", ["native", "strips"])
@pytest.mark.parametrize("statistics", ["default", "all"])
@pytest.mark.parametrize("largest", [1e30, 1e36, 3e38, -3e38])
def test_values_near_the_largest_number_do_not_overflow_in_sums(largest: float, statistics: str, kernel: str) -> None:
    query, key = torch.randn(2, 2, 300, 8), torch.randn(2, 2, 300, 8)
    value = torch.full((2, 2, 300, 3), largest)
    value[1] = torch.randn(2, 300, 3)
    output = attend(query, key, value, statistics=statistics, kernel=kernel).output
    torch.testing.assert_close(output[0], value[0], rtol=1e-5, atol=0)
    wanted, _ = scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(output[1], wanted[1])


def test_inputs_are_left_as_they_are() -> None:
    query, key, value = (torch.randn(1, 2, 33, 8) for _ in range(3))
    copies = query.clone(), key.clone(), value.clone()
    attend(query, key, value, mask=masks.causal())
    for tensor, copy in zip((query, key, value), copies, strict=True):
        assert torch.equal(tensor, copy)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_inputs_are_summed_in_float32(dtype: torch.dtype) -> None:
    query, key = torch.randn(1, 2, 300, 16).to(dtype), torch.randn(1, 2, 300, 16).to(dtype)
    half, whole = measure(query, key), measure(query.float(), key.float())
    assert half.kernel == "native"
    for name in ("entropy", "received", "row_mass"):
        np.testing.assert_allclose(half[name], whole[name], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch has another OpenMP runtime")
def test_the_threads_are_those_of_torch() -> None:
    assert (openmp_parallel() != 0) == torch.backends.openmp.is_available()
