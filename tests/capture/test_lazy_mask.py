from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers import masking_utils as hf

from heedmap.attention.masks.base import Mask
from heedmap.capture.lazy_mask import LazyMask, MaskTouchedError, lazy_mask
from heedmap.errors import UnsupportedError

QUERIES, KEYS = 9, 14


def _even_keys(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return key % 2 == 0


def _scalar_only(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return torch.stack([key, query]).min() > 2


pytestmark = pytest.mark.skipif(
    transformers.__version__.startswith("4."),
    reason="mask functions of transformers 4 are called otherwise; the families test those",
)

STARTS = torch.tensor([0, 3])
DOCUMENTS = torch.tensor([[0] * 5 + [1] * 9, [0] * 2 + [1] * 6 + [2] * 6])
RESTARTED = torch.cat([torch.arange(5), torch.arange(9)])[None].expand(2, -1)
BLOCKS = torch.tensor([[-1] * 3 + [0] * 4 + [-1] * 2 + [1] * 5, [-1] * 14])

_MAKE: dict[str, tuple[Callable[[], Any], bool]] = {  # name → (how to make transformers' function, whether described)
    "causal": (lambda: hf.causal_mask_function, True),
    "everything": (lambda: hf.bidirectional_mask_function, True),
    "window": (lambda: hf.sliding_window_causal_mask_function(4), True),
    "window both sides": (lambda: hf.sliding_window_bidirectional_mask_function(3), True),
    "half a window": (lambda: hf.sliding_window_overlay(4), False),
    "chunked": (lambda: hf.chunked_causal_mask_function(4, STARTS), True),
    "packed": (lambda: hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(DOCUMENTS)), True),
    "packed, renumbered": (
        lambda: hf.and_masks(
            hf.remap_positions_for_packed_sequence(hf.sliding_window_causal_mask_function(3), RESTARTED),
            hf.packed_sequence_mask_function(DOCUMENTS[:1].expand(2, -1)),
        ),
        True,
    ),
    "renumbered chunks": (
        lambda: hf.and_masks(
            hf.remap_positions_for_packed_sequence(hf.chunked_causal_mask_function(4, STARTS), RESTARTED),
            hf.packed_sequence_mask_function(DOCUMENTS[:1].expand(2, -1)),
        ),
        False,
    ),
    "blocks": (lambda: hf.or_masks(hf.causal_mask_function, hf.blockwise_overlay(BLOCKS)), True),
    "padding": (lambda: hf.and_masks(hf.causal_mask_function, hf.padding_mask_function(BLOCKS < 0)), True),
    "a user's": (lambda: _even_keys, False),
    "a user's and causal": (lambda: hf.and_masks(hf.causal_mask_function, _even_keys), False),
    "a user's or window": (lambda: hf.or_masks(hf.sliding_window_causal_mask_function(4), _even_keys), False),
}


def _made() -> dict[str, tuple[Any, bool]]:
    """Those that the installed transformers has."""
    made: dict[str, tuple[Any, bool]] = {}
    for name, (make, described) in _MAKE.items():
        with contextlib.suppress(AttributeError):
            made[name] = make(), described
    return made


FUNCTIONS = _made()


def _lazy(function: Any, **changes: Any) -> LazyMask:
    settings: dict[str, Any] = {
        "batch_size": 2,
        "q_length": QUERIES,
        "kv_length": KEYS,
        "q_offset": 5,
        "kv_offset": 0,
        "mask_function": function,
        "attention_mask": None,
        "dtype": torch.float32,
        "config": SimpleNamespace(),
        "use_vmap": False,
        "device": "cpu",
    }
    return lazy_mask(**(settings | changes))


def _table(mask: Mask, lazy: LazyMask, keys: int) -> torch.Tensor:
    rows = torch.arange(lazy.query_len) + lazy.query_offset
    columns = torch.arange(keys) + lazy.key_offset
    shape = (1, lazy.query_len, keys)
    return torch.stack([mask.allowed(item, rows, columns).expand(shape) for item in range(lazy.batch_size)])


PADDINGS = {
    "none": None,
    "all real": torch.ones(2, KEYS, dtype=torch.bool),
    "left": torch.arange(KEYS)[None] >= torch.tensor([[0], [6]]),
    "right": torch.arange(KEYS)[None] < torch.tensor([[KEYS], [9]]),
    "too short": torch.ones(2, KEYS - 3, dtype=torch.bool),
}


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_pair_is_allowed_as_in_transformers_own_dense_mask(name, padding):
    function, described = FUNCTIONS[name]
    lazy = _lazy(function, attention_mask=PADDINGS[padding])
    dense = hf.sdpa_mask(2, QUERIES, KEYS, 5, 0, function, PADDINGS[padding], allow_is_causal_skip=False)
    mask = lazy.mask(KEYS).fit(_frame(lazy))
    assert torch.equal(_table(mask, lazy, KEYS), dense.expand(2, 1, QUERIES, KEYS))
    assert (mask.describe(1) is not None) == described


def _frame(lazy: LazyMask) -> Any:
    from heedmap.attention.masks.base import Frame

    return Frame(lazy.batch_size, 4, lazy.query_len, lazy.key_len, lazy.query_offset, lazy.key_offset)


@pytest.mark.parametrize("name", ["causal", "window", "chunked", "half a window", "a user's and causal"])
def test_bounds_hide_nothing_that_is_allowed(name):
    lazy = _lazy(FUNCTIONS[name][0])
    mask = lazy.mask(KEYS).fit(_frame(lazy))
    table = _table(mask, lazy, KEYS)
    for start in range(QUERIES):
        bounds = mask.bounds(0, 5 + start, 6 + start, 0, KEYS)
        row = table[0, 0, start]
        assert not row[: bounds.visit_start].any()
        assert not row[bounds.visit_stop :].any()
        assert row[bounds.full_start : bounds.full_stop].all()


@pytest.mark.parametrize("name", ["causal", "window", "padding"])
def test_keys_of_a_windowed_cache_are_text_positions(name):
    function, padding = FUNCTIONS[name][0], torch.arange(20)[None].expand(2, -1) != 10
    lazy = _lazy(function, q_length=1, kv_length=5, q_offset=12, kv_offset=8, attention_mask=padding)
    dense = hf.sdpa_mask(2, 1, 5, 12, 8, function, padding, allow_is_causal_skip=False)
    mask = lazy.mask(5).fit(_frame(lazy))
    assert torch.equal(_table(mask, lazy, 5), dense.expand(2, 1, 1, 5))


def test_a_function_that_does_not_broadcast_is_called_pair_by_pair():
    lazy = _lazy(_scalar_only, use_vmap=True)
    dense = hf.sdpa_mask(2, QUERIES, KEYS, 5, 0, _scalar_only, None, allow_is_causal_skip=False, use_vmap=True)
    assert torch.equal(_table(lazy.mask(KEYS), lazy, KEYS), dense.expand(2, 1, QUERIES, KEYS))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_it_turns_into_the_mask_of_another_implementation(implementation):
    lazy = _lazy(FUNCTIONS["window"][0], attention_mask=PADDINGS["left"])
    make = {"eager": hf.eager_mask, "sdpa": hf.sdpa_mask}[implementation]
    expected = make(2, QUERIES, KEYS, 5, 0, FUNCTIONS["window"][0], PADDINGS["left"])
    assert torch.equal(lazy.dense(implementation), expected)
    assert lazy.dense(implementation) is lazy.dense(implementation)
    with pytest.raises(UnsupportedError, match="'nobody'"):
        lazy.dense("nobody")


def test_padding_tells_which_query_rows_are_real():
    rows = _lazy(hf.causal_mask_function, attention_mask=PADDINGS["left"]).real_queries()
    assert rows is not None
    assert rows.tolist() == [[True] * 9, [False] + [True] * 8]
    for padding in ("none", "all real"):
        assert _lazy(hf.causal_mask_function, attention_mask=PADDINGS[padding]).real_queries() is None


def test_empty_slots_of_a_static_cache_are_no_keys():
    static = {"q_length": 1, "kv_length": 20, "q_offset": torch.tensor(6)}
    assert _lazy(hf.causal_mask_function, **static).live_keys() == 7
    assert _lazy(hf.sliding_window_causal_mask_function(3), **static).live_keys() == 7
    if "everything" in FUNCTIONS:
        everything, _ = FUNCTIONS["everything"]
        assert _lazy(everything, **static).live_keys() == 20
        padded = torch.arange(20)[None].expand(2, -1) < 5
        assert _lazy(everything, attention_mask=padded, **static).live_keys() == 20


def test_a_live_offset_is_read_when_the_mask_is_made():
    offset = torch.tensor(6)
    lazy = _lazy(hf.causal_mask_function, q_length=1, kv_length=20, q_offset=offset)
    offset += 1
    assert lazy.query_offset == 6


def test_a_mask_made_ahead_of_the_model_is_handed_through():
    lazy = _lazy(hf.causal_mask_function)
    assert _lazy(hf.causal_mask_function, attention_mask=lazy) is lazy


def test_older_transformers_give_the_positions_of_the_queries():
    lazy = lazy_mask(1, kv_length=8, cache_position=torch.arange(5, 8), mask_function=hf.causal_mask_function)
    assert (lazy.query_len, lazy.query_offset) == (3, 5)
    with pytest.raises(UnsupportedError, match="cache_position"):
        lazy_mask(1, kv_length=8)


def test_a_mask_that_is_neither_a_table_nor_a_row_is_refused():
    with pytest.raises(UnsupportedError, match=r"\[2, 9, 14\]"):
        _lazy(hf.causal_mask_function, attention_mask=torch.ones(2, 9, 14))


def test_it_has_the_face_that_models_look_at():
    lazy = _lazy(hf.causal_mask_function)
    assert (lazy.ndim, lazy.dim(), lazy.shape, lazy.size(-1)) == (4, 4, (2, 1, QUERIES, KEYS), KEYS)
    assert lazy.to("cpu", torch.float32) is lazy.contiguous() is lazy
    assert lazy.device == torch.device("cpu")
    assert bool(lazy)
    assert not hasattr(lazy, "is_cuda")
    assert "9, 14" in repr(lazy)


@pytest.mark.parametrize(
    ("touch", "what"),
    [
        (lambda mask: mask[:, 0], "a slice of the mask"),
        (lambda mask: mask + 1, "__add__"),
        (lambda mask: torch.zeros(1) + mask, "torch's add"),
        (lambda mask: ~mask, "__invert__"),
        (lambda mask: torch.where(mask, 0, 1), "torch's where"),
        (lambda mask: torch.cat([torch.zeros(1), mask]), "torch's cat"),
        (lambda mask: mask.expand(2, 4, 9, 14), "mask.expand"),
        (lambda mask: list(mask), "the rows of the mask"),
        (lambda mask: mask.__setitem__(0, 1), "a write into the mask"),
        (len, "the length of the mask"),
    ],
)
def test_a_model_that_reads_it_as_a_table_is_refused_by_name(touch, what):
    class TinyConfig: ...

    lazy = _lazy(hf.causal_mask_function, config=TinyConfig())
    with pytest.raises(MaskTouchedError, match=f"Tiny, which asks for .*({what})"):
        touch(lazy)
