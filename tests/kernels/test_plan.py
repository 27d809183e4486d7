"""How a sweep is cut: a law of every mask, every strip within its room, windows visited in proportion."""

from __future__ import annotations

import pytest
import torch

from heedmap import AttentionInputs, masks
from heedmap.attention.masks.base import Mask
from heedmap.kernels.plan import BEST_ELEMENTS, LEAST_ROWS, Block, Task, blocks
from heedmap.statistics.base import Grid

LENGTH = 8192
MASKS: dict[str, Mask | None] = {
    "none": None,
    "causal": masks.causal(),
    "window": masks.causal() & masks.sliding_window(512),
    "narrow": masks.sliding_window(16, both_sides=True),
    "chunked": masks.causal() & masks.chunked(1024),
}


def cut(
    mask: Mask | None, *, held: bool, heads: int = 4, length: int = LENGTH, strip_bytes: int = 2**26
) -> list[Block]:
    query, key = torch.empty(1, heads, length, 1), torch.empty(1, 1, length, 1)
    inputs = AttentionInputs(query, key, mask=mask)
    return list(blocks(Task(inputs, (), Grid.of(inputs, 256), (0, length), strip_bytes, False), 4, held=held))


def scores(block: Block) -> int:
    rows, heads = block.row_stop - block.row_start, block.head_stop - block.head_start
    return rows * heads * (block.key_stop - block.key_start)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("length", [1, 100, LENGTH])
def test_every_row_of_every_head_lies_in_one_strip(mask: str, held: bool, length: int) -> None:
    visited = torch.zeros(4, length, dtype=torch.int64)
    for block in cut(MASKS[mask], held=held, length=length):
        visited[block.head_start : block.head_stop, block.row_start : block.row_stop] += 1
    assert bool((visited == 1).all())


@pytest.mark.parametrize("strip_bytes", [2**16, 2**20, 2**26])
@pytest.mark.parametrize("mask", MASKS)
def test_a_held_strip_fits_its_room_or_is_one_row(mask: str, strip_bytes: int) -> None:
    room = min(strip_bytes // 16, BEST_ELEMENTS + LEAST_ROWS * LENGTH)
    for block in cut(MASKS[mask], held=True, strip_bytes=strip_bytes):
        assert scores(block) <= room or block.row_stop - block.row_start == 1


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("window", [128, 512, 1024])
def test_windows_are_visited_in_proportion(window: int, held: bool) -> None:
    found = cut(masks.causal() & masks.sliding_window(window), held=held)
    allowed = 4 * sum(min(row + 1, window) for row in range(LENGTH))
    assert sum(map(scores, found)) <= allowed * (1 + max(0.5, 128 / window))


def test_heads_share_a_strip_where_a_window_leaves_room() -> None:
    assert all(block.head_stop - block.head_start == 4 for block in cut(MASKS["window"], held=True))
    assert any(block.head_stop - block.head_start < 4 for block in cut(None, held=True))
