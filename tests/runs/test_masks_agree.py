"""The NumPy evaluation of a mask's description equals the mask itself, for every kind that describes itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from heedmap.attention import masks
from heedmap.attention.masks.base import Frame, Mask
from heedmap.runs import formula

QUERY_LEN, KEY_LEN = 17, 23
VALID = torch.tensor([[True] * 23, [False] * 4 + [True] * 9 + [False] + [True] * 9, [False] * 23])
DOCUMENTS = torch.tensor([[0] * 9 + [1] * 14, [3] * 5 + [-1] * 8 + [3] * 10, list(range(23))])

MASKS: dict[str, Callable[[], Mask]] = {
    "all": masks.everything,
    "causal": masks.causal,
    "causal with offset": lambda: masks.causal(-2),
    "sliding window": lambda: masks.sliding_window(5),
    "sliding window of one": lambda: masks.sliding_window(1),
    "sliding window on both sides": lambda: masks.sliding_window(5, both_sides=True),
    "chunked": lambda: masks.chunked(6),
    "chunked from each start": lambda: masks.chunked(6, [0, 4, -1]),
    "prefix": lambda: masks.prefix(7),
    "prefix of each text": lambda: masks.prefix([0, 7, 30]),
    "padding": lambda: masks.padding(VALID),
    "packed": lambda: masks.packed(DOCUMENTS),
    "causal and window and padding": lambda: masks.causal() & masks.sliding_window(5) & masks.padding(VALID),
    "causal or prefix": lambda: masks.causal() | masks.prefix(7),
    "nested": lambda: (masks.causal() & masks.packed(DOCUMENTS)) | (masks.prefix(3) & masks.padding(VALID)),
}


@pytest.mark.parametrize("key_offset", [0, 100])
@pytest.mark.parametrize("name", MASKS)
def test_descriptions_say_what_masks_do(name: str, key_offset: int) -> None:
    query_offset = key_offset + KEY_LEN - QUERY_LEN
    mask = MASKS[name]().fit(Frame(3, 2, QUERY_LEN, KEY_LEN, query_offset, key_offset))
    queries = np.arange(QUERY_LEN) + query_offset
    keys = np.arange(KEY_LEN) + key_offset
    for batch in range(3):
        description = mask.describe(batch)
        assert description is not None
        formula.check_mask(description)
        assert formula.why_opaque(description) is None
        expected = mask.allowed(batch, torch.from_numpy(queries), torch.from_numpy(keys))
        expected = expected.expand(1, QUERY_LEN, KEY_LEN)[0].numpy()
        found = np.broadcast_to(formula.allowed(description, queries, keys), (QUERY_LEN, KEY_LEN))
        np.testing.assert_array_equal(found, expected)


def test_every_kind_that_can_be_evaluated_is_held_to_a_mask() -> None:
    met: set[str] = set()

    def collect(description: dict[str, object]) -> None:
        met.add(str(description["kind"]))
        for part in description.get("of", []):  # type: ignore[attr-defined]
            collect(part)

    for build in MASKS.values():
        description = build().fit(Frame(3, 2, QUERY_LEN, KEY_LEN, KEY_LEN - QUERY_LEN, 0)).describe(0)
        assert description is not None
        collect(description)
    assert met == formula.KINDS
