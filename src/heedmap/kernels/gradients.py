"""The backward pass of attention by strips: weights are computed again, so memory stays linear in length.

    dV = Wᵀ dO;   dS = W ∘ (dO Vᵀ - rowsum(dO ∘ O));   dQ = scale · dS K;   dK = scale · dSᵀ Q

Source: Dao et al. 2022, appendix B.2, with whole rows in place of tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels.batch_item import BatchItem, all_finite
from heedmap.kernels.hiding import bias_of, doubtful_segments
from heedmap.kernels.plan import Block, Task, blocks
from heedmap.kernels.scores import add_product, key_heads, multiply, product

TABLES = 4  # scores that become weights, the slope of the softcap, dO Vᵀ, and what a product may copy


@dataclass(frozen=True)
class Gradients:
    """What flows back, each in the shape and dtype of what it belongs to; `sinks` is None without."""

    query: Tensor
    key: Tensor
    value: Tensor
    sinks: Tensor | None


@torch.no_grad()
def gradients(task: Task, output: Tensor, flowing: Tensor) -> Gradients:
    """Gradients of query, key, value and sinks.

    Args:
        task: the sweep whose output this is; its inputs hold values.
        output: what the sweep gave, `[batch, query_heads, query_len, value_dim]`.
        flowing: the gradient that reaches the output, of the same shape.
    """
    inputs = task.inputs
    assert inputs.value is not None
    dtype = inputs.compute_dtype
    grad_query, grad_key, grad_value = (
        torch.zeros(tensor.shape, dtype=dtype, device=tensor.device)
        for tensor in (inputs.query, inputs.key, inputs.value)
    )
    grad_sinks = None if inputs.sinks is None else torch.zeros_like(inputs.sinks)
    with torch.autocast(inputs.query.device.type, enabled=False):
        item, room = BatchItem(inputs), _Room(inputs)
        finite_key = item.key
        for block in blocks(task, TABLES):
            if item.enter(block.batch):
                finite_key = item.key  # hidden ones may be NaN: 0 · NaN would reach every row
                if not all_finite(finite_key):
                    finite_key = finite_key.masked_fill(~torch.isfinite(finite_key), 0)
            assert item.value is not None
            heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
            keys = slice(block.key_start, block.key_stop)
            shared_heads = key_heads(inputs, block.head_start, block.head_stop)
            groups = shared_heads.stop - shared_heads.start  # query heads of one key head are stacked, as in `product`

            weights, share, sink, slope = _weights(inputs, item, block, room)
            arriving = flowing[block.batch, heads, rows].to(dtype)
            spread = (arriving * output[block.batch, heads, rows].to(dtype)).sum(-1, keepdim=True)
            if grad_sinks is not None and sink is not None:
                grad_sinks[heads] -= (sink * spread[..., 0]).sum(-1)
            arriving, spread = arriving * share, spread * share  # here, and not on the large table of weights
            stacked_weights = weights.view(groups, -1, weights.shape[-1])
            stacked_arriving = arriving.reshape(groups, -1, arriving.shape[-1])
            add_product(stacked_weights.transpose(1, 2), stacked_arriving, grad_value[block.batch, shared_heads, keys])

            scores = room.table(1, weights.shape)
            multiply(stacked_arriving, item.value[shared_heads, keys].transpose(1, 2), scores.view_as(stacked_weights))
            scores.sub_(spread).mul_(weights)
            scores = scores if slope is None else scores.mul_(slope)
            stacked = scores.view(groups, -1, weights.shape[-1])
            found = stacked @ finite_key[shared_heads, keys]
            grad_query[block.batch, heads, rows] = found.view(*arriving.shape[:2], -1) * inputs.scale
            asked = item.query(heads, rows).reshape(groups, -1, inputs.head_dim)
            add_product(stacked.transpose(1, 2), asked, grad_key[block.batch, shared_heads, keys])
    return Gradients(
        grad_query.to(inputs.query.dtype), grad_key.to(inputs.key.dtype), grad_value.to(inputs.value.dtype), grad_sinks
    )


class _Room:
    """Memory that strips use again and again: fresh tables cost as much as a pass over them."""

    def __init__(self, inputs: AttentionInputs) -> None:
        self._options = {"dtype": inputs.compute_dtype, "device": inputs.query.device}
        self._tables = [torch.empty(0, **self._options), torch.empty(0, **self._options)]

    def table(self, number: int, shape: Sequence[int]) -> Tensor:
        """The first or the second table, of this shape, uninitialised."""
        size = math.prod(shape)
        if self._tables[number].numel() < size:
            self._tables[number] = torch.empty(size, **self._options)
        return self._tables[number][:size].view(*shape)


def _weights(
    inputs: AttentionInputs, item: BatchItem, block: Block, room: _Room
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Weights of a strip `[heads, rows, keys]` before they are divided, what each row is to be multiplied by
    `[heads, rows, 1]`, the sink's weight `[heads, rows]`, and the slope of the softcap."""
    heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
    shape = (block.head_stop - block.head_start, block.row_stop - block.row_start, block.key_stop - block.key_start)
    scores = room.table(0, shape)
    product(item.query(heads, rows), item.key, block, inputs, out=scores)
    slope = None
    if inputs.softcap is not None:
        bent = scores.div_(inputs.softcap).tanh_()
        slope = 1 - bent.square()
        scores = bent.mul_(inputs.softcap)
    bias = bias_of(inputs, block)
    if bias is not None:
        scores.add_(bias)
    for segment in doubtful_segments(inputs, block):
        span = slice(segment.start - block.key_start, segment.stop - block.key_start)
        scores[..., span].masked_fill_(~segment.allowed, -torch.inf)
        if slope is not None:
            slope[..., span].masked_fill_(~segment.allowed, 0)
    largest = scores.amax(-1)
    logits = None if inputs.sinks is None else inputs.sinks[heads, None]
    if logits is not None:
        largest = torch.maximum(largest, logits)
    largest = largest.masked_fill(largest == -torch.inf, 0)
    weights = scores.sub_(largest[..., None]).exp_()
    sink = None if logits is None else (logits - largest).exp()
    total = weights.sum(-1) if sink is None else weights.sum(-1) + sink
    share = torch.where(total == 0, 0, 1 / total)
    return weights, share[..., None], None if sink is None else sink * share, slope
