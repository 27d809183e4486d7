"""`attend` carries the gradients of the textbook form, in memory linear in length."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from tests.laws.cases import MASKS
from torch import Tensor

from heedmap import attend, masks
from heedmap.attention import AttentionInputs
from heedmap.attention.reference import dense_attention
from heedmap.errors import UnsupportedError

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


def test_a_mask_that_asks_for_a_gradient_is_refused() -> None:
    bias = torch.randn(40, 40, requires_grad=True)
    with pytest.raises(UnsupportedError, match=r"mask\.detach\(\)"):
        attend(*leaves(), mask=bias)


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
