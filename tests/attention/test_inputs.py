from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from heedmap.attention import AttentionInputs, masks
from heedmap.errors import InputError

Q, K = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8)


def test_what_is_not_given_follows_from_the_shapes() -> None:
    inputs = AttentionInputs(Q, K)
    assert inputs.scale == pytest.approx(1 / math.sqrt(8))
    assert inputs.query_offset == 2  # bottom right: the last query stands at the last key
    assert (inputs.batch, inputs.query_heads, inputs.key_heads, inputs.query_len, inputs.key_len) == (2, 4, 2, 5, 7)
    assert AttentionInputs(Q, K, key_offset=10).query_offset == 12


def test_inputs_are_frozen_and_carry_no_gradient() -> None:
    inputs = AttentionInputs(Q.clone().requires_grad_(), K)
    assert not inputs.query.requires_grad
    with pytest.raises(AttributeError):
        inputs.scale = 1.0  # type: ignore[misc]


def test_half_precision_is_computed_in_single() -> None:
    for dtype, expected in (
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float64, torch.float64),
    ):
        assert AttentionInputs(Q.to(dtype), K.to(dtype)).compute_dtype == expected


def test_numbers_of_numpy_and_lists_are_numbers_too() -> None:
    inputs = AttentionInputs(
        Q,
        K,
        scale=np.float32(0.5),  # type: ignore[arg-type]
        query_offset=np.int64(3),  # type: ignore[arg-type]
        sinks=np.zeros(4),  # type: ignore[arg-type]
        valid_queries=[[True] * 4 + [False]] * 2,  # type: ignore[arg-type]
    )
    assert (inputs.scale, inputs.query_offset) == (0.5, 3)
    assert inputs.sinks is not None
    assert inputs.valid_queries is not None


@pytest.mark.parametrize(
    ("args", "more", "message"),
    [
        ((Q[0], K), {}, r"query \[batch, heads, length, dim\], got \[4, 5, 8\]; add leading dimensions"),
        (([1, 2], K), {}, "query as a torch tensor, got list"),
        ((Q.long(), K), {}, "query in fp32, bf16, fp16 or fp64, got torch.int64"),
        ((Q, K.half()), {}, "key like the query in torch.float32"),
        ((Q[:, :, :0], K), {}, "query with no empty dimension"),
        ((Q, K[:1]), {}, "one batch size and head_dim"),
        ((Q, K[..., :4]), {}, "one batch size and head_dim"),
        ((Q[:, :3], K), {}, "query heads as a multiple of key heads, got 3 and 2"),
        ((Q, K, K[:, :, :6]), {}, r"value \[2, 2, 7, dim\] like the key"),
        ((Q, K), {"scale": -1.0}, "positive scale"),
        ((Q, K), {"softcap": 0}, "positive softcap"),
        ((Q, K), {"mask": "causal"}, "a mask of heedmap.masks or a tensor, got str; make one"),
        ((Q, K), {"mask": torch.ones(5, 6).bool()}, r"broadcasts to .* = \[2, 4, 5, 7\]"),
        ((Q, K), {"mask": masks.padding(torch.ones(2, 6).bool())}, r"values for \[2 or 1, 7\] keys, got \[2, 6\]"),
        ((Q, K), {"mask": masks.prefix([1, 2, 3])}, "one length, or one for each of 2 texts, got 3"),
        ((Q, K), {"sinks": [1.0]}, r"sinks \[4\], one a query head"),
        ((Q, K), {"sinks": [1.0, math.nan, 0.0, 0.0]}, r"sinks below infinity"),
        ((Q, K), {"valid_queries": torch.ones(2, 7).bool()}, r"valid_queries as bool \[2, 5\]"),
        ((Q, K), {"valid_queries": torch.ones(2, 5)}, r"valid_queries as bool"),
        ((Q.to_sparse(), K), {}, "query as a dense tensor, got torch.sparse_coo"),
        ((Q, K.to("meta")), {}, "key as a dense tensor, got one without data"),
        ((Q, K), {"scale": "0.5"}, "a positive scale, as a number, got '0.5'"),
        ((Q, K), {"scale": True}, "a positive scale"),
        ((Q, K), {"scale": math.nan}, "a positive scale"),
        ((Q, K), {"softcap": math.inf}, "a positive softcap"),
        ((Q, K), {"sinks": "none"}, "sinks as a tensor, an array or lists of numbers, got 'none'"),
        ((Q, K), {"valid_queries": "all"}, "valid_queries as a tensor, an array or lists"),
        ((Q, K), {"token_ids": [None] * 7}, "token_ids as a tensor, an array or lists"),
        ((Q, K), {"parts": torch.ones(2, 7).bool()}, r"parts as finite floats \[2 or 1, 7, parts\]"),
        ((Q, K), {"parts": torch.ones(3, 7, 2)}, r"parts as finite floats"),
        ((Q, K), {"parts": torch.ones(2, 7, 2) * math.nan}, r"parts as finite floats"),
        ((Q, K), {"query_offset": 1.5}, "a whole number as query_offset, got 1.5"),
        ((Q, K), {"query_offset": 2**70}, "a whole number as query_offset"),
        ((Q, K), {"key_offset": "3"}, "a whole number as key_offset, got '3'"),
        ((Q, K), {"key_offset": None}, "a whole number as key_offset, got None"),
    ],
)
def test_bad_input_is_one_clear_error(args, more, message) -> None:
    with pytest.raises(InputError, match=message):
        AttentionInputs(*args, **more)
