"""The sweep in plain torch, on any device: strips of query rows against all keys they may see.

A strip holds whole rows, so there is one score product and one exponential, an exact row maximum, no rescaling, and the
final weights in hand for every statistic. Memory is one strip and the statistics' own results.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import InputError
from heedmap.kernels.plan import Block, Swept, Task, blocks
from heedmap.kernels.scores import largest, product, weighted_values
from heedmap.statistics.base import Statistic
from heedmap.statistics.skew import SkewBuffer
from heedmap.statistics.strip import GONE, Segment, Strip

NAME = "strips"
TABLES = 4  # scores, weights, scratch, and what a term of one's own may add


def unsupported(inputs: AttentionInputs, statistics: Sequence[Statistic]) -> str | None:
    """Why this kernel cannot take the call; it takes every call."""
    return None


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
        room = _Room(inputs)
        for block in blocks(task, TABLES):
            room.enter(block.batch)
            valid = None if inputs.valid_queries is None else inputs.valid_queries[block.batch]
            valid = None if valid is None else valid[block.row_start : block.row_stop]
            if output is None and valid is not None and not bool(valid.any()):
                continue
            strip = _strip(inputs, block, room, valid)
            if output is not None:
                rows = output[block.batch, block.head_start : block.head_stop, block.row_start : block.row_stop]
                rows.copy_(weighted_values(strip, room.value, room.spoiled_values))
            if valid is not None:
                strip.weights.masked_fill_(~valid[:, None], 0)
            for statistic in task.statistics:
                statistic.update(states[statistic.name], strip, task.grid)
    return Swept(states, output)


class _Room:
    """Memory that strips use again and again, and the keys and values of the batch item at hand."""

    def __init__(self, inputs: AttentionInputs) -> None:
        self.inputs = inputs
        self.batch = -1
        self.key: Tensor = inputs.key
        self.value: Tensor | None = None
        self.spoiled_values: Tensor | None = None
        self._tables: list[Tensor] = []

    def enter(self, batch: int) -> None:
        """Take keys and values of one batch item in the compute dtype: `[key_heads, key_len, dim]`."""
        if batch == self.batch:
            return
        self.batch = batch
        dtype = self.inputs.compute_dtype
        self.key = self.inputs.key[batch].to(dtype)
        if self.inputs.value is not None:
            value = self.inputs.value[batch].to(dtype)
            spoiled = ~torch.isfinite(value)
            self.spoiled_values = spoiled if bool(spoiled.any()) else None
            self.value = value if self.spoiled_values is None else value.masked_fill(spoiled, 0)

    def tables(self, heads: int, rows: int, keys: int) -> tuple[Tensor, SkewBuffer, Tensor]:
        """Scores, weights and scratch of a strip, uninitialised."""
        elements = SkewBuffer.elements(heads, rows, keys)
        if not self._tables or self._tables[0].numel() < elements:
            options = {"dtype": self.inputs.compute_dtype, "device": self.inputs.query.device}
            self._tables = [torch.empty(elements, **options) for _ in range(3)]
        scores, weights, scratch = self._tables
        size = heads * rows * keys
        shape = (heads, rows, keys)
        return scores[:size].view(shape), SkewBuffer(weights, *shape), scratch[:size].view(shape)


def _strip(inputs: AttentionInputs, block: Block, room: _Room, valid: Tensor | None) -> Strip:
    heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
    count = block.row_stop - block.row_start
    scores, weights, scratch = room.tables(block.head_stop - block.head_start, count, block.key_stop - block.key_start)
    query = inputs.query[block.batch, heads, rows].to(inputs.compute_dtype)
    product(query * inputs.scale, room.key, block, inputs, out=scores)
    if inputs.softcap is not None:
        scores.div_(inputs.softcap).tanh_().mul_(inputs.softcap)
    segments = _mask(scores, inputs, block)

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
    _check_finite(row_sum, block, valid)
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


def _mask(scores: Tensor, inputs: AttentionInputs, block: Block) -> tuple[Segment, ...]:
    """Add the bias and hide what is hidden, in place; ask the mask only where its bounds leave a doubt."""
    mask = inputs.mask
    if mask is None:
        return ()
    heads = slice(block.head_start, block.head_stop)
    device = scores.device
    query_at = torch.arange(block.row_start, block.row_stop, device=device) + inputs.query_offset
    segments: list[Segment] = []
    for start, stop in ((block.key_start, block.full_start), (block.full_stop, block.key_stop)):
        if stop > start:
            key_at = torch.arange(start, stop, device=device) + inputs.key_offset
            allowed = mask.allowed(block.batch, query_at, key_at, heads)
            allowed = allowed.reshape((1,) * (3 - allowed.dim()) + tuple(allowed.shape))
            part = scores[..., start - block.key_start : stop - block.key_start]
            part.masked_fill_(~allowed, -torch.inf)
            segments.append(Segment(start, stop, allowed.expand(-1, scores.shape[1], stop - start)))
    if mask.biased:
        key_at = torch.arange(block.key_start, block.key_stop, device=device) + inputs.key_offset
        bias = mask.bias(block.batch, query_at, key_at, heads)
        if bias is not None:
            scores.add_(bias)
    return tuple(segments)


def _check_finite(row_sum: Tensor, block: Block, valid: Tensor | None) -> None:
    bad = ~torch.isfinite(row_sum)
    if valid is not None:
        bad &= valid
    if bool(bad.any()):
        head, row = torch.nonzero(bad)[0].tolist()
        raise InputError(
            "measure",
            expected="finite scores for every pair that may attend",
            got=f"NaN or infinity at batch {block.batch}, head {block.head_start + head}, row {block.row_start + row}",
            do="look for NaN or infinity in query or key, or hide those keys with a mask",
        )
