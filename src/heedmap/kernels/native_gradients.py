"""The backward pass by the extension: blocks of keys, so that scores never leave a near cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels.batch_item import BatchItem
from heedmap.kernels.extension import extension, hidden, openmp_parallel
from heedmap.kernels.gradients import LEAST_ROWS, TABLES, Gradients, finite
from heedmap.kernels.hiding import doubtful_segments
from heedmap.kernels.packing import filled, in_rows
from heedmap.kernels.plan import Block, Task, blocks


@torch.no_grad()
def gradients(
    task: Task, output: Tensor, flowing: Tensor, terms: Tensor, instruction_set: str | None = None
) -> Gradients:
    """See `heedmap.kernels.gradients.gradients`; `terms` of the sweep, `[4, batch, query_heads, query_len]`."""
    inputs = task.inputs
    assert inputs.value is not None
    module = extension()
    assert module is not None
    panel = module.panel(instruction_set)
    grad_query, grad_key, grad_value = (
        torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in (inputs.query, inputs.key, inputs.value)
    )
    grad_sinks = None if inputs.sinks is None else torch.zeros_like(inputs.sinks)
    with torch.autocast("cpu", enabled=False):
        item, keys = BatchItem(inputs), None
        for block in blocks(task, TABLES, least_rows=LEAST_ROWS):
            if item.enter(block.batch):
                if keys is not None:
                    keys.give(grad_key, grad_value)
                keys = _Keys(module, inputs, item, block.batch, panel, instruction_set)
            assert keys is not None
            at = (block.batch, slice(block.head_start, block.head_stop), slice(block.row_start, block.row_stop))
            arriving = flowing[at].float()
            spread = (arriving * output[at].float()).sum(-1).contiguous()
            top_score, row_max, row_sum, scale = (term[at].contiguous() for term in terms)
            found = keys.strip(block, item.query(*at[1:]), arriving, (top_score, scale, spread))
            grad_query[at] = found.mul_(inputs.scale).to(grad_query.dtype)
            if grad_sinks is not None and inputs.sinks is not None:
                sink = (inputs.sinks[at[1], None] - row_max).exp() / row_sum
                grad_sinks[at[1]] -= sink.masked_fill_(row_sum == 0, 0).mul_(spread).sum(-1)
        if keys is not None:
            keys.give(grad_key, grad_value)
    return Gradients(grad_query, grad_key, grad_value, grad_sinks)


class _Keys:
    """Keys and values of one batch item in the orders that products take them, and what flows back to them."""

    def __init__(
        self, module: Any, inputs: AttentionInputs, item: BatchItem, batch: int, panel: int, instruction_set: str | None
    ) -> None:
        assert item.value is not None
        self._inputs, self._batch, self._panel = inputs, batch, panel
        key_rows = filled(filled(finite(item.key), 1, panel), 2, panel).contiguous()
        self._of_key = torch.zeros_like(key_rows)
        value_dim = item.value.shape[-1]
        self._of_value = key_rows.new_zeros(*key_rows.shape[:2], value_dim + -value_dim % panel)
        self._backward = module.Backward(
            query_heads=inputs.query_heads,
            packed_keys=in_rows(item.key, panel),
            packed_values=in_rows(item.value, panel),
            key_rows=key_rows,
            of_key=self._of_key,
            of_value=self._of_value,
            softcap=inputs.softcap or 0.0,
            instruction_set=instruction_set,
            openmp_parallel=openmp_parallel(),
        )

    def strip(self, block: Block, query: Tensor, arriving: Tensor, terms: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """What flows back to the queries of a strip, before their scale, `[heads, rows, head_dim]`."""
        query = filled(query, 2, self._panel).contiguous()
        found = torch.empty_like(query)
        top_score, scale, spread = terms
        self._backward.strip(
            head_start=block.head_start,
            keys=(block.key_start, block.key_stop),
            query=query,
            flowing=filled(arriving, 2, self._panel).contiguous(),
            top_score=top_score,
            scale=scale,
            spread=spread,
            allowed=hidden(doubtful_segments(self._inputs, block), block.key_start),
            of_query=found,
            threads=torch.get_num_threads(),
        )
        return found[..., : self._inputs.head_dim]

    def give(self, grad_key: Tensor, grad_value: Tensor) -> None:
        """What flowed back to this item, where it belongs."""
        for sums, grad in ((self._of_key, grad_key), (self._of_value, grad_value)):
            grad[self._batch] = sums[:, : grad.shape[2], : grad.shape[3]].to(grad.dtype)
