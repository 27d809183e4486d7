"""`attend` carries the gradients of the textbook form, in memory linear in length."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.laws.cases import MASKS
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from heedmap import attend, masks
from heedmap.attention import AttentionInputs
from heedmap.attention.reference import dense_attention
from heedmap.errors import UnsupportedError

REAL = torch.tensor([[1, 1, 1, 0]]).bool().repeat(1, 10)
LEFT_OUT = torch.arange(40).expand(2, -1) >= torch.tensor([[0], [9]])
FORMULAS = {
    "plain": {},
    "softcap": {"softcap": 1.5},
    "scale": {"scale": 0.9},
    "padding rows": {"valid_queries": LEFT_OUT},
}


def leaves(*, dtype: torch.dtype = torch.float64, length: int = 40, sinks: bool = False) -> list[Tensor]:
    query, key, value = torch.randn(2, 4, length, 6), torch.randn(2, 2, length, 6), torch.randn(2, 2, length, 5)
    tensors = [query, key, value, *([torch.randn(4)] if sinks else [])]
    return [tensor.to(dtype).requires_grad_() for tensor in tensors]


def textbook(query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None = None, **formula) -> Tensor:
    inputs = AttentionInputs(query, key, value, sinks=sinks, **formula)
    at = torch.arange(query.shape[2])
    allowed = torch.ones(query.shape[0], 4, len(at), len(at), dtype=torch.bool)
    bias = torch.zeros(allowed.shape, dtype=query.dtype)
    for batch in range(query.shape[0]):
        if inputs.mask is not None:
            allowed[batch] = inputs.mask.allowed(batch, at, at)
            added = inputs.mask.bias(batch, at, at)
            bias[batch] = 0 if added is None else added
    key, value = (tensor.repeat_interleave(2, dim=1) for tensor in (key, value))
    return dense_attention(query, key, value, allowed, bias, scale=inputs.scale, softcap=inputs.softcap, sinks=sinks)[0]


@pytest.mark.parametrize("sinks", [False, True], ids=["no sinks", "sinks"])
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("name", MASKS)
def test_gradients_are_those_of_the_textbook_form(name: str, formula: str, sinks: bool) -> None:
    tensors = leaves(sinks=sinks)
    more = {"mask": MASKS[name]()} | FORMULAS[formula]
    output = attend(*tensors[:3], sinks=tensors[3] if sinks else None, statistics="entropy", **more).output
    expected = textbook(*tensors, **more)
    torch.testing.assert_close(output, expected)
    flowing = torch.randn_like(output)
    found = torch.autograd.grad(output, tensors, flowing)
    for gradient, wanted in zip(found, torch.autograd.grad(expected, tensors, flowing), strict=True):
        torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("mask", [None, "causal", "prefix", "bias"])
def test_gradients_pass_torchs_own_check(mask: str | None) -> None:
    query, key, value = (tensor[:1, :, :5, :3].detach() for tensor in leaves()[:3])
    tensors = [tensor.clone().requires_grad_() for tensor in (query, key[:, :2], value[:, :2])]
    sinks = torch.randn(4, dtype=torch.float64, requires_grad=True)
    shown = None if mask is None else MASKS[mask]()
    if mask == "bias":
        shown = masks.from_tensor(torch.randn(4, 5, 5))
    assert torch.autograd.gradcheck(
        lambda q, k, v, s: attend(q, k, v, sinks=s, mask=shown, softcap=2.0, strip_bytes=900, statistics=()).output,
        (*tensors, sinks),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_errors_are_within_twice_those_of_the_textbook_form_in_the_same_dtype(dtype: torch.dtype) -> None:
    tensors = leaves(dtype=dtype, length=300)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    flowing = torch.randn(2, 4, 300, 5)
    mask = masks.causal()
    oracle = torch.autograd.grad(textbook(*exact, mask=mask), exact, flowing.double())
    plain = torch.autograd.grad(textbook(*tensors, mask=mask), tensors, flowing.to(dtype))
    found = torch.autograd.grad(attend(*tensors, mask=mask).output, tensors, flowing.to(dtype))
    for gradient, rough, right in zip(found, plain, oracle, strict=True):
        budget = 2 * float((rough.double() - right).abs().max())
        assert float((gradient.double() - right).abs().max()) <= max(budget, 1e-5)


def test_only_what_needs_a_gradient_gets_one() -> None:
    query, key, value = leaves()
    output = attend(query, key.detach(), value.detach()).output
    assert output.requires_grad
    output.sum().backward()
    assert query.grad is not None
    with torch.no_grad():
        assert not attend(query, key, value).output.requires_grad


def test_nothing_of_a_hidden_key_or_value_reaches_a_gradient() -> None:
    tensors = [tensor.detach() for tensor in leaves()]
    tensors[1][:, :, 30:] = torch.nan
    tensors[2][:, :, 30:] = torch.inf
    tensors = [tensor.requires_grad_() for tensor in tensors]
    attend(*tensors, mask=masks.padding(torch.arange(40) < 30)).output.sum().backward()
    for tensor in tensors:
        assert bool(torch.isfinite(tensor.grad).all())


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_saw_no_number_among_the_values_lets_nothing_flow_back_as_in_the_textbook_form(bad: float) -> None:
    tensors = [tensor.detach() for tensor in leaves()]
    tensors[2][0, 1, 30, 2] = tensors[2][1, 0, 39] = bad
    tensors = [tensor.requires_grad_() for tensor in tensors]
    output, expected = attend(*tensors, mask=masks.causal()).output, textbook(*tensors, mask=masks.causal())
    assert torch.equal(output.isnan(), expected.isnan())
    flowing = torch.randn_like(output)
    found = torch.autograd.grad(output, tensors, flowing)
    for gradient, wanted in zip(found, torch.autograd.grad(expected, tensors, flowing), strict=True):
        torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("reduce", [Tensor.sum, lambda output: output.square().sum()], ids=["linear", "not linear"])
def test_a_second_backward_pass_is_refused_and_never_0(reduce: Callable[[Tensor], Tensor]) -> None:
    tensors = leaves(sinks=True)
    output = attend(*tensors[:3], sinks=tensors[3], statistics=()).output
    for gradient in torch.autograd.grad(reduce(output), tensors, create_graph=True):
        with pytest.raises(UnsupportedError, match=r"expected gradients once, .*scaled_dot_product_attention"):
            torch.autograd.grad(gradient.square().sum(), tensors, retain_graph=True)


@pytest.mark.parametrize("changed", range(4))
def test_a_tensor_changed_before_the_backward_pass_is_noticed(changed: int) -> None:
    tensors = [tensor.detach() for tensor in leaves(sinks=True)]
    tensors[changed - 1].requires_grad_()
    output = attend(*tensors[:3], sinks=tensors[3], statistics=()).output
    tensors[changed].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize(
    ("make", "held"),
    [
        (masks.padding, REAL),
        (lambda real: masks.causal() & masks.padding(real), REAL),
        (masks.packed, REAL.long()),
        (lambda real: real, REAL[:, None, None].expand(1, 1, 40, 40).contiguous()),
        (lambda real: masks.from_tensor(real) | masks.causal(), REAL[:, None, None]),
    ],
    ids=["padding", "combined", "packed", "a tensor", "either"],
)
def test_a_mask_changed_before_the_backward_pass_is_noticed(make: Callable, held: Tensor) -> None:
    held = held.clone()
    tensors = leaves()
    output = attend(*tensors[:3], mask=make(held), statistics=()).output
    output.sum().backward(retain_graph=True)
    held.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_a_checkpoint_holds_no_key_until_the_backward_pass_and_gives_the_same() -> None:
    query = leaves()[0]
    numbers = torch.randn(2, 2, 40, 6, dtype=torch.float64).numpy()
    kept: list[weakref.ref[np.ndarray]] = []

    def attended(query: Tensor) -> Tensor:
        copy = numbers.copy()
        kept.append(weakref.ref(copy))
        key = torch.from_numpy(copy)
        return attend(query, key, key, mask=masks.causal(), statistics=()).output

    output = checkpoint(attended, query, use_reentrant=False)
    assert kept[0]() is None
    (found,) = torch.autograd.grad(output.sum(), query)
    (wanted,) = torch.autograd.grad(attended(query).sum(), query)
    assert torch.equal(found, wanted)


def test_gradients_of_any_layout_flow_back() -> None:
    tensors = leaves()
    output = attend(*tensors, statistics=()).output
    dense = torch.randn(2, 4, 5, 40, dtype=torch.float64).transpose(2, 3)
    for flowing in (dense, torch.ones(1, 1, 1, 1, dtype=torch.float64).expand_as(output)):
        found = torch.autograd.grad(output, tensors, flowing, retain_graph=True)
        wanted = torch.autograd.grad(output, tensors, flowing.contiguous(), retain_graph=True)
        for gradient, same in zip(found, wanted, strict=True):
            torch.testing.assert_close(gradient, same)


@pytest.mark.parametrize("start", [torch.zeros, torch.randn], ids=["all 0", "random"])
@pytest.mark.parametrize(
    "wrap", [lambda bias: bias, masks.from_tensor, lambda bias: masks.causal() & masks.from_tensor(bias)]
)
def test_a_mask_that_asks_for_a_gradient_is_refused(start: Callable[..., Tensor], wrap: Callable) -> None:
    bias = start(40, 40, requires_grad=True)
    with pytest.raises(UnsupportedError, match=r"detach\(\)"):
        attend(*leaves(), mask=wrap(bias))
    with torch.no_grad():
        attend(*leaves(), mask=wrap(bias))


MEASURE = """
import sys, torch
from heedmap.machine import peak_memory
from heedmap import attend, masks
torch.set_num_threads(1)
def step(n):
    tensors = [torch.randn(1, 1, n, 8, requires_grad=True) for _ in range(3)]
    attend(*tensors, mask=masks.causal() & masks.sliding_window(64), statistics="entropy").output.sum().backward()
step(64)
before = peak_memory()
step(int(sys.argv[1]))
print(peak_memory() - before)
"""


def test_memory_of_a_training_step_grows_with_the_length_and_not_with_its_square() -> None:
    taken = [
        int(subprocess.run([sys.executable, "-c", MEASURE, str(n)], check=True, capture_output=True).stdout)
        for n in (8192, 16384)
    ]
    assert taken[1] < 2.6 * max(taken[0], 8 * 2**20)
    assert taken[1] < 16384**2 * 4 / 4  # a quarter of one head's weights
