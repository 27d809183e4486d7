"""What flows back through every kernel equals what flows back through the dense float64 form, on every case."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from tests.laws.budget import budget, error
from tests.laws.cases import CASES, MASKS, Case, random_inputs
from torch import Tensor
from torch.nn import functional

from heedmap.attention import AttentionInputs, masks
from heedmap.attention.reference import dense_attention
from heedmap.kernels import native, native_gradients
from heedmap.kernels.extension import extension
from heedmap.kernels.gradients import Gradients
from heedmap.kernels.plan import Swept, Task
from heedmap.measure import KERNELS, STRIP_BYTES
from heedmap.statistics.base import Grid

LONG = (
    Case(
        "several spans of keys from an odd start",
        lambda: random_inputs(
            heads=4,
            key_heads=2,
            query_len=2300,
            head_dim=24,
            value_dim=9,
            mask=masks.causal() & masks.sliding_window(1100),
        ),
    ),
    Case("several spans, full", lambda: random_inputs(heads=3, key_heads=1, query_len=70, key_len=3001, head_dim=33)),
    Case(
        "many heads, tensor", lambda: random_inputs(batch=2, heads=4, key_heads=2, mask=MASKS["tensor"](), softcap=2.0)
    ),
)
EVERY = pytest.mark.parametrize("case", [*CASES, *LONG], ids=lambda case: case.name)
EACH = pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
NATIVE = pytest.mark.skipif(extension() is None, reason="heedmap installed without its compiled part")


def flowing_to(inputs: AttentionInputs) -> Tensor:
    assert inputs.value is not None
    shape = (inputs.batch, inputs.query_heads, inputs.query_len, inputs.value.shape[-1])
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(inputs.query.dtype)


def leaves_of(inputs: AttentionInputs, dtype: torch.dtype) -> tuple[list[Tensor], Tensor | None, list[Tensor]]:
    """Query, key, value; sinks; and the heads that these are: each key head as often as query heads share it."""
    assert inputs.value is not None
    leaves = [tensor.to(dtype).requires_grad_() for tensor in (inputs.query, inputs.key, inputs.value)]
    sinks = None if inputs.sinks is None else inputs.sinks.to(dtype).requires_grad_()
    group = inputs.query_heads // inputs.key_heads
    return leaves, sinks, [leaves[0], *(tensor.repeat_interleave(group, dim=1) for tensor in leaves[1:])]


def table_of(inputs: AttentionInputs, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Which pairs may attend, and what is added to their scores."""
    queries = torch.arange(inputs.query_len) + inputs.query_offset
    keys = torch.arange(inputs.key_len) + inputs.key_offset
    shape = (inputs.batch, inputs.query_heads, inputs.query_len, inputs.key_len)
    mask = inputs.mask
    if mask is None:
        return torch.ones(shape, dtype=torch.bool), None
    allowed = torch.stack([mask.allowed(b, queries, keys).expand(shape[1:]) for b in range(inputs.batch)])
    if not mask.biased:
        return allowed, None
    added = [mask.bias(b, queries, keys) for b in range(inputs.batch)]
    return allowed, torch.stack(
        [torch.zeros(shape[1:]) if bias is None else bias.expand(shape[1:]) for bias in added]
    ).to(dtype)


@cache
def dense(case: Case, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Gradients of query, key, value and sinks by autograd through the n×n weights in `dtype`."""
    inputs = case.build()
    leaves, sinks, heads = leaves_of(inputs, dtype)
    formula = {"scale": inputs.scale, "softcap": inputs.softcap, "sinks": sinks}
    output, _ = dense_attention(*heads, *table_of(inputs, dtype), **formula)
    wanted = leaves if sinks is None else [*leaves, sinks]
    return torch.autograd.grad(output, wanted, flowing_to(inputs).to(dtype))


@cache
def fused(case: Case) -> tuple[Tensor, ...] | None:
    """The same by torch's own attention where it takes the call: it too knows Σ w g by the output, whose rounding a key
    far from 0 makes larger."""
    inputs = case.build()
    allowed, bias = table_of(inputs, inputs.compute_dtype)
    if inputs.softcap is not None or inputs.sinks is not None or bias is not None or not bool(allowed.any(-1).all()):
        return None
    leaves, _, heads = leaves_of(inputs, inputs.compute_dtype)
    causal = torch.equal(allowed, torch.ones_like(allowed).tril())
    shown = None if causal or bool(allowed.all()) else allowed
    output = functional.scaled_dot_product_attention(*heads, shown, is_causal=causal, scale=inputs.scale)
    return torch.autograd.grad(output, leaves, flowing_to(inputs).to(inputs.compute_dtype))


def swept(inputs: AttentionInputs, kernel: str) -> tuple[Task, Swept]:
    module = next(module for module in KERNELS if kernel == module.NAME)
    reason = module.unsupported(inputs, ())
    if reason is not None:
        pytest.skip(f"{kernel} refuses this call: {reason}")
    task = Task(inputs, (), Grid.of(inputs), (0, inputs.query_len), STRIP_BYTES, with_output=True, with_terms=True)
    return task, module.sweep(task)


def parts(found: Gradients) -> list[Tensor]:
    return [part for part in (found.query, found.key, found.value, found.sinks) if part is not None]


def assert_right(found: Gradients, case: Case, inputs: AttentionInputs) -> None:
    oracle, plain, own = dense(case, torch.float64), dense(case, inputs.compute_dtype), fused(case)
    for at, (part, right) in enumerate(zip(parts(found), oracle, strict=True)):
        roughs = [each[at].to(part.dtype).double().numpy() for each in (plain, own) if each is not None]
        allowed = max(budget(rough, right.numpy(), inputs) for rough in roughs)
        assert error(part.double().numpy(), right.numpy()) <= allowed


@EACH
@EVERY
def test_gradients_equal_the_textbook_gradients(case: Case, kernel: str) -> None:
    inputs = case.build()
    task, found = swept(inputs, kernel)
    module = next(module for module in KERNELS if kernel == module.NAME)
    assert found.output is not None
    flowing = flowing_to(inputs)
    assert_right(module.gradients(task, found.output, flowing, found.terms), case, inputs)


@NATIVE
@EVERY
def test_gradients_are_right_in_every_instruction_set(case: Case) -> None:
    inputs = case.build()
    task, found = swept(inputs, native.NAME)
    if found.terms is None:
        pytest.skip("a bias in the mask is torch's to add")
    assert found.output is not None
    module = extension()
    assert module is not None
    names = [name for name in module.instruction_sets() if module.panel(name) > 0]
    assert names
    for name in names:
        assert_right(
            native_gradients.gradients(task, found.output, flowing_to(inputs), found.terms, name), case, inputs
        )


@NATIVE
@pytest.mark.parametrize("case", LONG, ids=lambda case: case.name)
def test_gradients_keep_their_bits_for_any_number_of_threads(case: Case) -> None:
    inputs = case.build()
    task, found = swept(inputs, native.NAME)
    assert found.output is not None
    before, several = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            several.append(parts(native.gradients(task, found.output, flowing_to(inputs), found.terms)))
    finally:
        torch.set_num_threads(before)
    for others in several[1:]:
        for part, same in zip(others, several[0], strict=True):
            assert torch.equal(part, same)
