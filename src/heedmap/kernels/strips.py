"""The sweep in plain torch, on any device: strips of query rows against all keys they may see.

A strip holds whole rows, so there is one score product and one exponential, an exact row maximum, no rescaling, and the
final weights in hand for every statistic. Memory is one strip and the statistics' own results.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels.batch_item import BatchItem
from heedmap.kernels.gradients import gradients
from heedmap.kernels.hiding import bias_of, doubtful_segments, not_finite
from heedmap.kernels.plan import Block, Swept, Task, blocks
from heedmap.kernels.scores import largest, product, weighted_values
from heedmap.statistics.base import Statistic
from heedmap.statistics.skew import SkewBuffer
from heedmap.statistics.strip import GONE, Strip

__all__ = ["NAME", "folds_padding", "gradients", "sweep", "unsupported"]
NAME = "strips"
TABLES = 4  # scores, weights, scratch, and what a term of one's own may add


def unsupported(inputs: AttentionInputs, statistics: Sequence[Statistic]) -> str | None:
    """Why this kernel cannot take the call; it takes every call."""
    return None


def folds_padding(task: Task) -> bool:
    """Whether texts of different lengths may come as the heads of one: torch's sums round by the length of a row."""
    return False


@torch.no_grad()
def sweep(task: Task) -> Swept:
    """Visit every strip once; see `Task` and `Swept`."""
    inputs = task.inputs
    device = inputs.query.device
    states = {statistic.name: statistic.start(inputs, task.grid) for statistic in task.statistics}
    output = None
    if task.with_output and inputs.value is not None:
        shape = (inputs.batch, inputs.query_heads, inputs.query_len, inputs.value.shape[-1])
        output = torch.zeros(shape, dtype=inputs.query.dtype, device=device)
    with torch.autocast(device.type, enabled=False):
        item, room = BatchItem(inputs), _Room(inputs)
        for block in blocks(task, TABLES):
            item.enter(block.batch)
            heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
            valid = task.valid(block.batch, heads, rows)
            if output is None and valid is not None and not bool(valid.any()):
                continue
            strip = _strip(inputs, block, item, room, valid)
            if output is not None:
                output[block.batch, heads, rows].copy_(weighted_values(strip, item.value, item.spoiled_values))
            if valid is not None:
                strip.weights.masked_fill_(~valid[..., None], 0)
            for statistic in task.statistics:
                statistic.update(states[statistic.name], strip, task.grid)
    return Swept(states, output)


class _Room:
    """Memory that strips use again and again."""

    def __init__(self, inputs: AttentionInputs) -> None:
        self._options = {"dtype": inputs.compute_dtype, "device": inputs.query.device}
        self._tables: list[Tensor] = []

    def tables(self, heads: int, rows: int, keys: int) -> tuple[Tensor, SkewBuffer, Tensor]:
        """Scores, weights and scratch of a strip, uninitialised."""
        elements = SkewBuffer.elements(heads, rows, keys)
        if not self._tables or self._tables[0].numel() < elements:
            self._tables = [torch.empty(elements, **self._options) for _ in range(3)]
        scores, weights, scratch = self._tables
        size = heads * rows * keys
        shape = (heads, rows, keys)
        return scores[:size].view(shape), SkewBuffer(weights, *shape), scratch[:size].view(shape)


def _strip(inputs: AttentionInputs, block: Block, item: BatchItem, room: _Room, valid: Tensor | None) -> Strip:
    heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
    count = block.row_stop - block.row_start
    scores, weights, scratch = room.tables(block.head_stop - block.head_start, count, block.key_stop - block.key_start)
    product(item.query(heads, rows), item.key, block, inputs, out=scores)
    if inputs.softcap is not None:
        scores.div_(inputs.softcap).tanh_().mul_(inputs.softcap)
    segments = doubtful_segments(inputs, block)
    for segment in segments:
        part = scores[..., segment.start - block.key_start : segment.stop - block.key_start]
        part.masked_fill_(~segment.allowed, -torch.inf)
    bias = bias_of(inputs, block)
    if bias is not None:
        scores.add_(bias)

    top_score, top = largest(scores)
    empty = top_score == -torch.inf
    base = top_score.masked_fill(empty, 0)
    shifted = scores.sub_(base[..., None])
    for segment in segments:
        part = shifted[..., segment.start - block.key_start : segment.stop - block.key_start]
        part.masked_fill_(~segment.allowed, GONE)
    torch.exp(shifted, out=weights.table)
    row_max, row_sum = top_score, weights.table.sum(-1).masked_fill_(empty, 0)
    share, sink = row_sum.reciprocal(), None
    if inputs.sinks is not None:
        row_max = torch.maximum(top_score, inputs.sinks[heads, None])
        sink = inputs.sinks[heads, None] - row_max.masked_fill(row_max == -torch.inf, 0)
        smaller = (base - row_max).exp().masked_fill(empty, 0)  # of the keys against a sink above them
        row_sum = row_sum * smaller + sink.exp()
        share = smaller / row_sum
    bad = ~torch.isfinite(row_sum) if valid is None else ~torch.isfinite(row_sum) & valid
    if bool(bad.any()):
        head, row = torch.nonzero(bad)[0].tolist()
        raise not_finite(block.batch, block.head_start + head, block.row_start + row)
    weights.table.mul_(share.masked_fill_(empty, 0)[..., None])
    return Strip(
        inputs=inputs,
        batch=block.batch,
        head_start=block.head_start,
        head_stop=block.head_stop,
        row_start=block.row_start,
        row_stop=block.row_stop,
        key_start=block.key_start,
        key_stop=block.key_stop,
        shifted=shifted,
        weights=weights.table,
        by_distance=weights.by_distance,
        scratch=scratch,
        top_score=top_score,
        row_max=row_max,
        row_sum=row_sum,
        sink=sink,
        top=top,
        empty=empty,
        valid=valid,
        segments=segments,
        cell_rows=block.cell_rows,
    )
