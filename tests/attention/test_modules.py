from __future__ import annotations

import pytest
import torch

from heedmap.attention import MultiHeadSelfAttention, SelfAttention, scaled_dot_product_attention
from heedmap.errors import InputError


def test_self_attention_is_attention_of_three_projections() -> None:
    module, x = SelfAttention(16, 8, 6), torch.randn(2, 5, 16)
    output, weights = module(x)
    expected, expected_weights = scaled_dot_product_attention(
        x @ module.w_q.weight.T, x @ module.w_k.weight.T, x @ module.w_v.weight.T
    )
    assert output.shape == (2, 5, 6)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)


def test_self_attention_honours_a_mask() -> None:
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    _, weights = SelfAttention(16, 8)(torch.randn(5, 16), mask)
    assert torch.equal(weights, weights.tril())
    torch.testing.assert_close(weights[0, 0], torch.tensor(1.0))


def test_many_heads_equal_torchs_own_module() -> None:
    module = MultiHeadSelfAttention(16, 4)
    torchs = torch.nn.MultiheadAttention(16, 4, bias=False, batch_first=True)
    with torch.no_grad():
        torchs.in_proj_weight.copy_(torch.cat([module.w_q.weight, module.w_k.weight, module.w_v.weight]))
        torchs.out_proj.weight.copy_(module.w_o.weight)
    x = torch.randn(2, 5, 16)
    output, weights = module(x)
    expected, expected_weights = torchs(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)


def test_gradients_reach_every_projection() -> None:
    module = MultiHeadSelfAttention(16, 2, d_k=3, d_v=5)
    module(torch.randn(4, 16))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_bad_sizes_are_named() -> None:
    with pytest.raises(InputError, match="multiple of heads, got 16 and 3"):
        MultiHeadSelfAttention(16, 3)
    with pytest.raises(InputError, match="d_k of 1 or more"):
        SelfAttention(16, 0)
    with pytest.raises(InputError, match="d_k of 1 or more, got True"):
        SelfAttention(16, True)
    with pytest.raises(InputError, match=r"x \[..., length, 16\] in torch.float32, got torch.float32 \[5, 8\]"):
        SelfAttention(16, 8)(torch.randn(5, 8))


@pytest.mark.parametrize("x", [None, torch.ones(16), torch.ones(5, 16).long(), torch.ones(5, 16).half()])
@pytest.mark.parametrize("module", [SelfAttention(16, 8), MultiHeadSelfAttention(16, 2)])
def test_rows_that_do_not_fit_are_one_clear_error(module: torch.nn.Module, x: object) -> None:
    with pytest.raises(InputError, match=r"expected x \[..., length, 16\] in torch.float32, got"):
        module(x)


def test_under_autocast_rows_of_another_precision_are_taken() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = SelfAttention(16, 8)(torch.randn(5, 16).bfloat16())
    assert output.dtype == torch.bfloat16
