from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.cases import MASKS

from heedmap.attention import masks
from heedmap.attention.masks import Frame, Mask
from heedmap.errors import InputError

FRAME = Frame(batch=2, heads=4, query_len=40, key_len=40, query_offset=0, key_offset=0)
AT = torch.arange(40)


def whole(mask: Mask, batch: int = 0) -> torch.Tensor:
    return mask.fit(FRAME).allowed(batch, AT, AT).expand(4, 40, 40)


@pytest.mark.parametrize("name", MASKS)
def test_a_strip_of_a_mask_is_that_part_of_the_whole(name: str) -> None:
    mask = MASKS[name]().fit(FRAME)
    for batch in range(2):
        full = whole(mask, batch)
        for rows, keys, heads in ((slice(3, 9), slice(0, 40), slice(0, 4)), (slice(39, 40), slice(7, 21), slice(2, 3))):
            part = mask.allowed(batch, AT[rows], AT[keys], heads)
            expected = full[heads, rows, keys]
            assert torch.equal(part.expand(expected.shape), expected)


@pytest.mark.parametrize("name", MASKS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bounds_never_leave_out_an_allowed_key_nor_promise_a_hidden_one(name: str, data: st.DataObject) -> None:
    mask = MASKS[name]().fit(FRAME)
    batch = data.draw(st.integers(0, 1))
    start = data.draw(st.integers(0, 39))
    stop = data.draw(st.integers(start + 1, 40))
    bounds = mask.bounds(batch, start, stop, 0, 40)
    allowed = whole(mask, batch)[:, start:stop]
    assert 0 <= bounds.visit_start <= bounds.full_start <= bounds.full_stop <= bounds.visit_stop <= 40
    assert not allowed[..., : bounds.visit_start].any()
    assert not allowed[..., bounds.visit_stop :].any()
    assert allowed[..., bounds.full_start : bounds.full_stop].all()


@pytest.mark.parametrize("name", ["causal", "window", "window-both-sides", "chunked", "prefix", "left-padding"])
def test_bounds_are_tight_where_the_mask_is_regular(name: str) -> None:
    mask = MASKS[name]().fit(FRAME)
    for start in range(0, 40, 5):
        bounds = mask.bounds(1, start, start + 5, 0, 40)
        seen = whole(mask, 1)[0, start : start + 5].any(0).nonzero().flatten()
        if seen.numel():
            assert (bounds.visit_start, bounds.visit_stop) == (int(seen[0]), int(seen[-1]) + 1)
        else:
            assert bounds.visit_start == bounds.visit_stop


@pytest.mark.parametrize("name", MASKS)
def test_a_description_is_plain_data_or_none(name: str) -> None:
    description = MASKS[name]().fit(FRAME).describe(1)
    opaque = any(word in name for word in ("tensor", "bias", "function"))
    assert (description is None) == opaque
    assert json.loads(json.dumps(description)) == description


def test_a_sliding_window_counts_the_query_itself() -> None:
    row = whole(masks.sliding_window(3))[0, 10]
    assert row.nonzero().flatten().tolist() == [8, 9, 10]
    both = whole(masks.sliding_window(2, both_sides=True))[0, 10]
    assert both.nonzero().flatten().tolist() == [8, 9, 10, 11, 12]


def test_a_prefix_is_seen_by_all_and_the_rest_is_causal() -> None:
    table = whole(masks.causal() | masks.prefix(6))[0]
    assert table[0].nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.equal(table[10], AT <= 10)


def test_packed_documents_see_only_themselves() -> None:
    table = whole(masks.packed(torch.tensor([0] * 10 + [7] * 30)))[0]
    assert table[:10, :10].all()
    assert not table[:10, 10:].any()
    assert table[10:, 10:].all()


def test_unequal_lengths_are_aligned_bottom_right() -> None:
    frame = Frame(1, 1, 2, 5, 3, 0)
    table = masks.causal().fit(frame).allowed(0, torch.tensor([3, 4]), torch.arange(5))
    assert table.tolist() == [[True] * 4 + [False], [True] * 5]


def test_and_and_or_of_the_same_kind_describe_flat() -> None:
    description = (masks.causal() & masks.sliding_window(3) & masks.chunked(8)).describe()
    assert description == {
        "kind": "and",
        "of": [
            {"kind": "causal", "offset": 0},
            {"kind": "sliding_window", "size": 3, "both_sides": False},
            {"kind": "chunked", "size": 8},
        ],
    }


def test_a_padding_mask_is_described_by_its_real_stretches() -> None:
    valid = torch.tensor([[False, True, True, False, True]])
    frame = Frame(1, 1, 5, 5, 0, 0)
    assert masks.padding(valid).fit(frame).describe() == {"kind": "padding", "valid": [[1, 3], [4, 5]]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: masks.sliding_window(0), "size of 1 or more, got 0; leave the mask out"),
        (lambda: masks.sliding_window(None), "size of 1 or more, got None"),
        (lambda: masks.chunked(-1), "size of 1 or more"),
        (lambda: masks.prefix(-1), "length of 0 or more"),
        (lambda: masks.padding(torch.rand(2, 4)), "booleans or integers 0 and 1"),
        (lambda: masks.padding(torch.ones(1, 2, 3).bool()), r"\[key\] or \[batch, key\], got \[1, 2, 3\]"),
        (lambda: masks.packed(torch.rand(4)), "integer document numbers"),
        (lambda: masks.from_tensor(torch.ones(4).bool()), "2 to 4 dimensions"),
        (lambda: masks.from_tensor(torch.eye(4)), "float mask of only 0 and 1"),
        (lambda: masks.from_function(3), "a function of"),
        (lambda: masks.from_tensor(torch.rand(4, 4)) | masks.causal(), "combine additive masks with &"),
        (lambda: masks.causal(1.5), "a whole number as offset, got 1.5"),
        (lambda: masks.causal(None), "a whole number as offset, got None"),
        (lambda: masks.chunked(4, start=[0.5]), "a whole number as start, got 0.5"),
        (lambda: masks.prefix([1.5]), "length of 0 or more, got 1.5"),
        (lambda: masks.prefix("3"), "length of 0 or more, got '3'"),
        (lambda: masks.prefix(None), "length of 0 or more, got None"),
        (lambda: masks.prefix([]), "a length, or one for each text, got none"),
        (lambda: masks.padding(None), "one value for each key as a tensor, an array or lists"),
        (lambda: masks.packed("ab"), "one value for each key as a tensor, an array or lists"),
        (lambda: masks.from_tensor(None), "a mask as a tensor, an array or lists"),
        (lambda: masks.causal() & torch.ones(4, 4).bool(), r"two masks to combine, got Tensor; wrap it"),
        (lambda: masks.causal() | None, "two masks to combine, got NoneType"),
    ],
)
def test_bad_input_is_one_clear_error(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_polarity_is_never_inverted() -> None:
    with pytest.raises(TypeError, match="never inverted"):
        ~masks.causal()


def test_a_function_must_answer_with_booleans() -> None:
    mask = masks.from_function(lambda b, h, q, k: q - k).fit(FRAME)
    with pytest.raises(InputError, match="booleans"):
        mask.allowed(0, AT, AT)


@pytest.mark.parametrize(
    ("answer", "message"),
    [(None, "the function's answer as a tensor"), (torch.ones(3, 2).bool(), r"broadcasts to \[heads, queries, keys\]")],
)
def test_a_function_must_answer_for_every_pair(answer: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        masks.from_function(lambda b, h, q, k: answer).fit(FRAME).allowed(0, AT, AT)


def test_sizes_may_be_numpys_numbers() -> None:
    assert masks.sliding_window(np.int64(4)) == masks.sliding_window(4)  # type: ignore[arg-type]
    assert masks.prefix(np.array([1, 2])) == masks.prefix([1, 2])  # type: ignore[arg-type]
