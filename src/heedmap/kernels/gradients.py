"""The backward pass of attention by strips: weights are computed again, so memory stays linear in length.

    dV = Wᵀ dO;   dS = W ∘ (dO Vᵀ - rowsum(dO ∘ O));   dQ = scale · dS K;   dK = scale · dSᵀ Q

Source: Dao et al. 2022, §B.2, with whole rows in place of tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import UnsupportedError
from heedmap.kernels.batch_item import BatchItem
from heedmap.kernels.hiding import bias_of, doubtful_segments
from heedmap.kernels.plan import Block, Task, blocks
from heedmap.kernels.scores import key_heads, product

TABLES = 4  # scores, weights, and two products of theirs


@dataclass(frozen=True)
class Gradients:
    """What flows back, each in the shape and dtype of what it belongs to; `sinks` is None without."""

    query: Tensor
    key: Tensor
    value: Tensor
    sinks: Tensor | None


@torch.no_grad()
def gradients(task: Task, row_max: Tensor, row_sum: Tensor, output: Tensor, flowing: Tensor) -> Gradients:
    """Gradients of query, key, value and sinks.

    Args:
        task: the sweep whose output this is; its inputs hold values.
        row_max, row_sum: m and l of every row, `[batch, query_heads, query_len]`, padding rows included.
        output: what the sweep gave, `[batch, query_heads, query_len, value_dim]`.
        flowing: the gradient that reaches the output.

    Raises:
        UnsupportedError: values that are NaN or infinite.
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
        item = BatchItem(inputs)
        for block in blocks(task, TABLES):
            item.enter(block.batch)
            if item.spoiled_values is not None:
                raise UnsupportedError(
                    "attend", expected="finite values where gradients are asked for", got="NaN or infinity"
                )
            assert item.value is not None
            rows = (block.batch, slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop))
            arriving = flowing[rows].to(dtype)
            weights, slope = _weights(inputs, item, block, row_max[rows].to(dtype), row_sum[rows].to(dtype))
            keys = slice(block.key_start, block.key_stop)
            groups = key_heads(inputs, block.head_start, block.head_stop)
            stacked = (groups.stop - groups.start, -1)

            group_weights = weights.view(*stacked, weights.shape[-1])
            group_arriving = arriving.reshape(*stacked, arriving.shape[-1])
            grad_value[block.batch, groups, keys] += group_weights.transpose(1, 2) @ group_arriving

            shared = (arriving * output[rows].to(dtype)).sum(-1, keepdim=True)
            back = (group_arriving @ item.value[groups, keys].transpose(1, 2)).view(weights.shape)
            if grad_sinks is not None and inputs.sinks is not None:
                logits = inputs.sinks[rows[1], None]
                share = (logits - row_max[rows]).exp() / row_sum[rows]
                grad_sinks[rows[1]] -= (share.nan_to_num(0) * shared[..., 0]).sum(-1)
            grad_scores = back.sub_(shared).mul_(weights)
            if slope is not None:
                grad_scores.mul_(slope)
            group_scores = grad_scores.view(*stacked, weights.shape[-1])
            found = group_scores @ item.key[groups, keys]
            grad_query[rows] = found.view(arriving.shape[0], arriving.shape[1], -1) * inputs.scale
            group_query = item.query[rows[1:]].reshape(*stacked, inputs.head_dim)
            grad_key[block.batch, groups, keys] += group_scores.transpose(1, 2) @ group_query
    return Gradients(
        grad_query.to(inputs.query.dtype),
        grad_key.to(inputs.key.dtype),
        grad_value.to(inputs.value.dtype),
        grad_sinks,
    )


def _weights(
    inputs: AttentionInputs, item: BatchItem, block: Block, row_max: Tensor, row_sum: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Weights of a strip `[heads, rows, keys]`, and the slope of the softcap at each score."""
    heads, rows = slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop)
    shape = (block.head_stop - block.head_start, block.row_stop - block.row_start, block.key_stop - block.key_start)
    scores = torch.empty(shape, dtype=inputs.compute_dtype, device=inputs.query.device)
    product(item.query[heads, rows], item.key, block, inputs, out=scores)
    slope = None
    if inputs.softcap is not None:
        bent = scores.div_(inputs.softcap).tanh_()
        slope = 1 - bent**2
        scores = bent * inputs.softcap
    bias = bias_of(inputs, block)
    if bias is not None:
        scores.add_(bias)
    for segment in doubtful_segments(inputs, block):
        span = slice(segment.start - block.key_start, segment.stop - block.key_start)
        scores[..., span].masked_fill_(~segment.allowed, -torch.inf)
        if slope is not None:
            slope[..., span].masked_fill_(~segment.allowed, 0)
    empty = row_sum == 0
    base = row_max.masked_fill(row_max == -torch.inf, 0)
    scores.sub_(base[..., None]).exp_()
    return scores.mul_((1 / row_sum).masked_fill(empty, 0)[..., None]), slope
