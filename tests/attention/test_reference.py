from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from heedmap.attention import masks, scaled_dot_product_attention
from heedmap.errors import InputError


def qkv(*lead: int, queries: int = 5, keys: int = 7, dim: int = 4, dtype: torch.dtype = torch.float64):
    return (
        torch.randn(*lead, queries, dim, dtype=dtype),
        torch.randn(*lead, keys, dim, dtype=dtype),
        torch.randn(*lead, keys, 3, dtype=dtype),
    )


def test_it_is_softmax_of_scaled_products_times_values() -> None:
    query, key, value = qkv()
    output, weights = scaled_dot_product_attention(query, key, value)
    by_hand = torch.tensor(
        [
            [math.exp(sum(q * k for q, k in zip(qi, kj, strict=True)) / 2) for kj in key.tolist()]
            for qi in query.tolist()
        ],
        dtype=torch.float64,
    )
    by_hand /= by_hand.sum(-1, keepdim=True)
    torch.testing.assert_close(weights, by_hand)
    torch.testing.assert_close(output, by_hand @ value)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_output_is_torchs_own(lead: tuple[int, ...]) -> None:
    query, key, value = qkv(*lead)
    mask = torch.rand(5, 7) < 0.6
    mask[:, 0] = True
    output, weights = scaled_dot_product_attention(query, key, value, mask, scale=0.3)
    expected = functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3)
    torch.testing.assert_close(output, expected)
    assert weights.shape == (*lead, 5, 7)
    assert bool((weights[..., ~mask] == 0).all())


def test_a_boolean_an_integer_and_an_infinite_mask_say_the_same() -> None:
    query, key, value = qkv(2)
    mask = torch.rand(5, 7) < 0.5
    forms = [
        mask,
        mask.long(),
        torch.zeros(5, 7).masked_fill(~mask, -torch.inf),
        torch.zeros(5, 7).masked_fill(~mask, torch.finfo(torch.float32).min),
    ]
    results = [scaled_dot_product_attention(query, key, value, form)[1] for form in forms]
    for result in results[1:]:
        assert torch.equal(result, results[0])


def test_a_finite_bias_stays_a_bias() -> None:
    query, key, value = qkv()
    plain = scaled_dot_product_attention(query, key, value)[1]
    everywhere = scaled_dot_product_attention(query, key, value, torch.full((5, 7), -10_000.0, dtype=torch.float64))[1]
    torch.testing.assert_close(everywhere, plain)
    biased = scaled_dot_product_attention(query, key, value, torch.linspace(-0.5, 0.5, 7).expand(5, 7))[1]
    assert float((biased - plain).abs().max()) > 1e-3


def test_a_float_mask_of_zeros_and_ones_is_refused_with_both_remedies() -> None:
    query, key, value = qkv()
    with pytest.raises(InputError, match=r"float mask of only 0 and 1.*mask\.bool\(\).*mask - 1"):
        scaled_dot_product_attention(query, key, value, torch.ones(5, 7).tril())


def test_a_query_with_no_allowed_key_has_output_and_weights_of_zero() -> None:
    query, key, value = qkv()
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert bool((output[2] == 0).all())
    assert bool((weights[2] == 0).all())
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nothing_of_a_hidden_key_or_value_reaches_anything(bad: float) -> None:
    query, key, value = qkv()
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[:, 3] = False
    clean = scaled_dot_product_attention(query, key, value, mask)
    key[3], value[3] = bad, bad
    query.requires_grad_(), key.requires_grad_(), value.requires_grad_()
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert torch.equal(output, clean[0])
    assert torch.equal(weights, clean[1])
    output.sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert bool(torch.isfinite(tensor.grad).all())


def test_nan_in_a_visible_key_or_value_is_not_hidden() -> None:
    query, key, value = qkv()
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[0, 3] = False
    value[3] = torch.nan
    output, _ = scaled_dot_product_attention(query, key, value, mask)
    assert bool(torch.isfinite(output[0]).all())
    assert bool(torch.isnan(output[1:]).all())
    key[3] = torch.nan
    _, weights = scaled_dot_product_attention(query, key, value, mask)
    assert bool(torch.isnan(weights[1:]).all())


def test_gradients_are_right() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in qkv(2))
    mask = torch.ones(5, 7, dtype=torch.bool).tril(2)
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *t: scaled_dot_product_attention(*t[:3], mask, softcap=2.0, sinks=t[3]), (query, key, value, sinks)
    )


def test_a_sink_takes_its_share_of_every_row() -> None:
    query, key, value = qkv(2)
    _, weights = scaled_dot_product_attention(query, key, value, sinks=torch.tensor([0.0, -torch.inf]))
    scores = query @ key.transpose(-2, -1) / 2
    share = 1 / (scores[0].exp().sum(-1) + 1)
    torch.testing.assert_close(weights[0].sum(-1), 1 - share)
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("query", "key", "value", "more", "message"),
    [
        ((5, 4), (7, 3), (7, 3), {}, "one head_dim, got 4 and 3"),
        ((5, 4), (7, 4), (6, 4), {}, "equal length, got 7 and 6"),
        ((4,), (7, 4), (7, 4), {}, r"query as a floating point tensor .* got torch.float32 \[4\]"),
        ((8, 5, 4), (2, 7, 4), (2, 7, 4), {}, "repeat grouped key heads"),
        ((5, 4), (7, 4), (7, 4), {"scale": 0.0}, "positive scale"),
        ((5, 4), (7, 4), (7, 4), {"softcap": math.nan}, "positive softcap"),
        ((5, 4), (7, 4), (7, 4), {"mask": torch.ones(5, 6).bool()}, r"broadcasts to \[5, 7\], got \[5, 6\]"),
        ((5, 4), (7, 4), (7, 4), {"mask": torch.full((5, 7), 2)}, "integer mask of 0 and 1"),
        ((5, 4), (7, 4), (7, 4), {"mask": torch.full((5, 7), torch.nan)}, r"NaN or \+inf"),
        ((5, 4), (7, 4), (7, 4), {"mask": masks.causal()}, "the mask as a torch tensor, got Causal; give one of bool"),
        ((5, 4), (7, 4), (7, 4), {"mask": [[1] * 7] * 5}, "the mask as a torch tensor, got list"),
        ((5, 4), (7, 4), (7, 4), {"scale": "1"}, "a positive scale, as a number, got '1'"),
        ((2, 5, 4), (2, 7, 4), (2, 7, 4), {"sinks": torch.zeros(3)}, r"sinks as a tensor \[2\], one a head, got \[3\]"),
        ((2, 5, 4), (2, 7, 4), (2, 7, 4), {"sinks": [0.0, 0.0]}, r"sinks as a tensor \[2\], one a head, got list"),
        ((5, 4), (7, 4), (7, 4), {"sinks": torch.zeros(1)}, "a dimension of heads, for sinks"),
    ],
)
def test_bad_input_is_one_clear_error(query, key, value, more, message) -> None:
    with pytest.raises(InputError, match=message):
        scaled_dot_product_attention(torch.zeros(query), torch.zeros(key), torch.zeros(value), **more)


def test_integers_are_no_queries() -> None:
    with pytest.raises(InputError, match=r"query as a floating point tensor"):
        scaled_dot_product_attention(torch.ones(2, 2).long(), torch.ones(2, 2), torch.ones(2, 2))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_query_that_is_no_number_has_no_numbers_in_its_row_and_no_other(bad: float) -> None:
    query, key, value = torch.rand(5, 4), torch.rand(7, 4), torch.rand(7, 4)
    query[2, 1] = bad
    for softcap in (None, 2.0):
        output, weights = scaled_dot_product_attention(query, key, value, softcap=softcap)
        for table in (output, weights):
            assert torch.equal(table.isnan().any(-1), torch.arange(5) == 2)
