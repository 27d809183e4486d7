"""The backward pass of attention by strips: weights are computed again, so memory stays linear in length.

    dV = Wᵀ dO;   dS = W ∘ (dO Vᵀ - rowsum(dO ∘ O));   dQ = scale · dS K;   dK = scale · dSᵀ Q

Source: Dao et al. 2022, appendix B.2, with whole rows in place of tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels.batch_item import BatchItem, all_finite
from heedmap.kernels.hiding import bias_of, doubtful_segments
from heedmap.kernels.plan import Block, Task, blocks
from heedmap.kernels.scores import add_product, key_heads, multiply, product

TABLES = 4  # scores that become weights, the slope of the softcap, dO Vᵀ, and what a product may copy
LEAST_ROWS = 256
"""Rows of a strip, where there is room: each strip reads all keys and values, and what flowed back to them, again."""


@dataclass(frozen=True)
class Gradients:
    """What flows back, each in the shape and dtype of what it belongs to; `sinks` is None without."""

    query: Tensor
    key: Tensor
    value: Tensor
    sinks: Tensor | None


Backward = Callable[[Task, Tensor, Tensor, Tensor | None], Gradients]
"""A kernel's backward pass; see `gradients`."""


@torch.no_grad()
def gradients(task: Task, output: Tensor, flowing: Tensor, terms: Tensor | None = None) -> Gradients:
    """Gradients of query, key, value and sinks.

    Args:
        task: the sweep whose output this is; its inputs hold values.
        output: what the sweep gave, `[batch, query_heads, query_len, value_dim]`.
        flowing: the gradient that reaches the output, of the same shape.
        terms: `Swept.terms` of the sweep; here they are computed again.
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
        for block in blocks(task, TABLES, least_rows=LEAST_ROWS):
            if item.enter(block.batch):
                finite_key = finite(item.key)
            assert item.value is not None
            heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
            keys = slice(block.key_start, block.key_stop)
            shared_heads = key_heads(inputs, block.head_start, block.head_stop)
            groups = shared_heads.stop - shared_heads.start

            weights, found = room.tables(heads, rows, keys)
            stacked_weights, stacked = (table.view(groups, -1, table.shape[-1]) for table in (weights, found))
            query = item.query(heads, rows)
            product(query, item.key, block, inputs, out=weights)
            arriving = flowing[block.batch, heads, rows].to(dtype)
            spread = (arriving * output[block.batch, heads, rows].to(dtype)).sum(-1)
            multiply(_stack(arriving, groups), item.value[shared_heads, keys].transpose(1, 2), out=stacked)
            share, sink = _softmax_back(inputs, block, weights, found, spread)
            if grad_sinks is not None and sink is not None:
                grad_sinks[heads] -= (sink * spread).sum(-1)

            of_query = (stacked @ finite_key[shared_heads, keys]).view(query.shape)
            grad_query[block.batch, heads, rows] = of_query * (share * inputs.scale)
            add_product(
                stacked.transpose(1, 2), _stack(query * share, groups), grad_key[block.batch, shared_heads, keys]
            )
            given = _stack(arriving * share, groups)
            add_product(stacked_weights.transpose(1, 2), given, grad_value[block.batch, shared_heads, keys])
    return Gradients(
        grad_query.to(inputs.query.dtype), grad_key.to(inputs.key.dtype), grad_value.to(inputs.value.dtype), grad_sinks
    )


class _Room:
    """Memory that strips use again and again: fresh tables cost as much as a pass over them."""

    def __init__(self, inputs: AttentionInputs) -> None:
        self._options = {"dtype": inputs.compute_dtype, "device": inputs.query.device}
        self._first = self._second = torch.empty(0, **self._options)

    def tables(self, heads: slice, rows: slice, keys: slice) -> tuple[Tensor, Tensor]:
        """Two of a strip's shape, uninitialised."""
        shape = tuple(span.stop - span.start for span in (heads, rows, keys))
        size = math.prod(shape)
        if self._first.numel() < size:
            self._first, self._second = torch.empty(size, **self._options), torch.empty(size, **self._options)
        return self._first[:size].view(shape), self._second[:size].view(shape)


def _softmax_back(
    inputs: AttentionInputs, block: Block, scores: Tensor, flowing: Tensor, spread: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Put e = exp(score - largest) in the place of `scores`, and e ∘ (dO Vᵀ - `spread`) in that of `flowing` = dO Vᵀ,
    times the slope of the softcap; return what e is to be multiplied by to be the weight, `[heads, rows, 1]`, and the
    sink's weight, `[heads, rows]`. Rows are short where they meet a query or an output, and long here."""
    flowing.sub_(spread[..., None])
    if inputs.softcap is not None:
        bent = scores.div_(inputs.softcap).tanh_()
        flowing.mul_(1 - bent.square())
        scores = bent.mul_(inputs.softcap)
    bias = bias_of(inputs, block)
    if bias is not None:
        scores.add_(bias)
    for segment in doubtful_segments(inputs, block):
        span = slice(segment.start - block.key_start, segment.stop - block.key_start)
        scores[..., span].masked_fill_(~segment.allowed, -torch.inf)
        if inputs.softcap is not None:  # the slope at a hidden NaN is NaN
            flowing[..., span].masked_fill_(~segment.allowed, 0)
    largest = scores.amax(-1)
    logits = None if inputs.sinks is None else inputs.sinks[block.head_start : block.head_stop, None]
    if logits is not None:
        largest = torch.maximum(largest, logits)
    largest = largest.masked_fill(largest == -torch.inf, 0)
    exponentials = scores.sub_(largest[..., None]).exp_()
    flowing.mul_(exponentials)
    sink = None if logits is None else (logits - largest).exp()
    total = exponentials.sum(-1) if sink is None else exponentials.sum(-1) + sink
    share = torch.where(total == 0, 0, 1 / total)
    return share[..., None], None if sink is None else sink * share


def finite(key: Tensor) -> Tensor:
    """Keys without NaN and infinity: hidden ones may hold them, and 0 · NaN would reach every row."""
    return key if all_finite(key) else key.masked_fill(~torch.isfinite(key), 0)


def _stack(rows: Tensor, groups: int) -> Tensor:
    """Rows of query heads that share a key head below one another, `[key_heads, group · rows, dim]`."""
    return rows.reshape(groups, -1, rows.shape[-1])
