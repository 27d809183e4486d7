"""Attention whose output carries gradients, in memory linear in length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import UnsupportedError
from heedmap.kernels.batch_item import all_finite
from heedmap.kernels.gradients import Backward, Gradients
from heedmap.kernels.plan import Swept, Task

FORMULA = ("scale", "mask", "softcap", "query_offset", "key_offset", "valid_queries", "cross")
Flow = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor], Gradients]


class StripAttention(torch.autograd.Function):
    """The output of a sweep, and by strips what flows back from it; the textbook form would keep the n×n weights."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        sinks: Tensor | None,
        task: Task,
        run: Callable[[], Swept],
        backward: Backward,
    ) -> Tensor:
        """`run()` sweeps `task`, whose inputs are these tensors, by the kernel whose `backward` pass this is."""
        swept = run()
        output = swept.output
        assert output is not None
        ctx.flow = _flow(task, None if sinks is not None else task.inputs.sinks, backward, swept.terms)
        mask = task.inputs.mask
        ctx.save_for_backward(query, key, value, sinks, output, *(() if mask is None else mask.tensors()))
        return output

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, flowing: Tensor
    ) -> tuple[Tensor | None, ...]:
        held = ctx.saved_tensors[:5]  # those of the mask are saved for autograd to see whether they were changed
        return (*_Backward.apply(*held, flowing, ctx.flow, ctx.needs_input_grad[:4]), *[None] * 3)


class _Backward(torch.autograd.Function):
    """The backward pass, known to autograd, so that a second one through it is an error and not silently 0."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        sinks: Tensor | None,
        output: Tensor,
        flowing: Tensor,
        flow: Flow,
        needed: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:
        if not all_finite(output):  # what saw NaN or infinity among the values is NaN whatever the weights are
            lost = output.isnan()
            output, flowing = output.masked_fill(lost, 0), flowing.masked_fill(lost, 0)
        found = flow(query, key, value, sinks, output, flowing)
        of_sinks = None if sinks is None or found.sinks is None else found.sinks.to(sinks.dtype)
        parts = (found.query, found.key, found.value, of_sinks)
        return tuple(part if wanted else None for part, wanted in zip(parts, needed, strict=True))

    @staticmethod
    def backward(ctx: Any, *flowing: Tensor) -> None:
        raise UnsupportedError(
            "attend",
            expected="gradients once",
            got="a backward pass through the backward pass",
            do="use heedmap.scaled_dot_product_attention, which can be differentiated any number of times",
        )


def _flow(task: Task, sinks: Tensor | None, backward: Backward, terms: Tensor | None) -> Flow:
    """The backward pass from tensors of which it holds none: autograd keeps them, sees whether they were changed, and
    gives them up where a checkpoint computes them again."""
    formula = {name: getattr(task.inputs, name) for name in FORMULA}
    grid, rows, strip_bytes = task.grid, task.rows, task.strip_bytes

    def flow(
        query: Tensor, key: Tensor, value: Tensor, logits: Tensor | None, output: Tensor, flowing: Tensor
    ) -> Gradients:
        inputs = AttentionInputs(query, key, value, sinks=sinks if logits is None else logits, **formula)
        return backward(Task(inputs, (), grid, rows, strip_bytes, with_output=True), output, flowing, terms)

    return flow
