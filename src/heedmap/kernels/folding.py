"""Short texts of one length as the heads of one: what a strip costs beside its pairs is paid once for all of them."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks.structured import Causal, Everything, SlidingWindow
from heedmap.kernels.hiding import NotFiniteError, not_finite
from heedmap.kernels.plan import BEST_ELEMENTS, Swept, Task

_ALIKE = (Everything, Causal, SlidingWindow)
"""Masks that are the same for every text and head."""


def fold(task: Task) -> Task | None:
    """The same sweep with `[batch, heads, …]` as `[1, batch · heads, …]`; None where texts differ in more than numbers,
    or where one text alone fills a strip.

    Heads keep their key heads: head b·H + h of the folded call shares key head (b·H + h) // group = b·K + h // group.
    """
    inputs = task.inputs
    if (
        inputs.batch == 1
        or inputs.valid_queries is not None
        or not (inputs.mask is None or isinstance(inputs.mask, _ALIKE))
        or any(statistic.needs not in ("", "value", "parts") for statistic in task.statistics)
        or (inputs.parts is not None and inputs.parts.shape[0] > 1)
        or inputs.query_heads * inputs.query_len * inputs.key_len >= BEST_ELEMENTS
    ):
        return None
    folded = AttentionInputs(
        _as_heads(inputs.query),
        _as_heads(inputs.key),
        None if inputs.value is None else _as_heads(inputs.value),
        scale=inputs.scale,
        mask=inputs.mask,
        softcap=inputs.softcap,
        sinks=None if inputs.sinks is None else inputs.sinks.repeat(inputs.batch),
        query_offset=inputs.query_offset,
        key_offset=inputs.key_offset,
        cross=inputs.cross,
        parts=inputs.parts,
    )
    return replace(task, inputs=folded)


def unfold(swept: Swept, task: Task) -> Swept:
    """What the folded sweep found, as the task's own: counts that hold for all heads hold for all texts."""
    batch = task.inputs.batch
    states = {name: _as_texts(state, batch) for name, state in swept.states.items()}
    terms = None if swept.terms is None else swept.terms.unflatten(2, (batch, -1))[:, 0]
    return Swept(states, None if swept.output is None else _as_texts(swept.output, batch), terms)


def unfolded(error: NotFiniteError, task: Task) -> NotFiniteError:
    """The refusal of a row of the folded call, as that of the text whose row it is."""
    _, head, row = error.place
    return not_finite(*divmod(head, task.inputs.query_heads), row)


def _as_heads(table: Tensor) -> Tensor:
    return table.reshape(1, -1, *table.shape[2:])


def _as_texts(table: Tensor, batch: int) -> Tensor:
    if table.shape[1] == 1:
        return table.expand(batch, *table.shape[1:]).clone()
    return table.reshape(batch, -1, *table.shape[2:])
