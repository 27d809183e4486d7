"""Attention whose output carries gradients, in memory linear in length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedmap.kernels.gradients import gradients
from heedmap.kernels.plan import Task


class StripAttention(torch.autograd.Function):
    """The output of a sweep, and by strips what flows back from it; the textbook form would keep the n×n weights."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None, task: Task, run: Callable[[], Tensor]
    ) -> Tensor:
        """`run()` sweeps `task`, whose inputs are these tensors, and gives the output."""
        output = run()
        ctx.task = task
        ctx.sinks_dtype = None if sinks is None else sinks.dtype
        ctx.save_for_backward(output)
        return output

    @staticmethod
    @once_differentiable  # whose own annotation makes its first argument positional
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (output,) = ctx.saved_tensors
        found = gradients(ctx.task, output, grad_outputs[0])
        sinks = None if found.sinks is None else found.sinks.to(ctx.sinks_dtype)
        needed = ctx.needs_input_grad
        back = [part if needed[at] else None for at, part in enumerate((found.query, found.key, found.value, sinks))]
        return (*back, None, None)
