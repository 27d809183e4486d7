"""Short texts as the heads of one: what a strip costs beside its pairs is paid once for all of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks.base import ALL_HEADS, Bounds, Mask
from heedmap.attention.masks.combine import And
from heedmap.attention.masks.data import Padding
from heedmap.attention.masks.structured import Causal, Everything, SlidingWindow
from heedmap.kernels.hiding import NotFiniteError, not_finite
from heedmap.kernels.plan import BEST_ELEMENTS, Swept, Task

_ALIKE = (Everything, Causal, SlidingWindow)
"""Masks that are the same for every text and head."""


def fold(task: Task, *, padded: bool) -> Task | None:
    """The same sweep with `[batch, heads, …]` as `[1, batch · heads, …]`; None where texts differ in more than numbers,
    or where one text alone fills a strip. With `padded` texts may also differ in length and in their parts.

    Heads keep their key heads: head b·H + h of the folded call shares key head (b·H + h) // group = b·K + h // group.
    """
    inputs = task.inputs
    if (
        inputs.batch == 1
        or any(statistic.needs not in ("", "value", "parts") for statistic in task.statistics)
        or inputs.query_heads * inputs.query_len * inputs.key_len >= BEST_ELEMENTS
    ):
        return None
    differ = inputs.valid_queries is not None or (inputs.parts is not None and inputs.parts.shape[0] > 1)
    alike = inputs.mask is None or isinstance(inputs.mask, _ALIKE)
    mask = inputs.mask
    if differ or not alike:
        mask = _of_texts(Everything() if mask is None else mask, inputs) if padded else None
        if mask is None:
            return None
        if not mask.per_head:  # rows that count differ between heads, and pairs are counted where masks do
            everything = torch.ones(inputs.batch, inputs.key_len, dtype=torch.bool, device=inputs.query.device)
            mask = And(mask, _PaddingOfTexts(everything, inputs.query_heads, inputs.key_offset))
    folded = AttentionInputs(
        _as_heads(inputs.query),
        _as_heads(inputs.key),
        None if inputs.value is None else _as_heads(inputs.value),
        scale=inputs.scale,
        softcap=inputs.softcap,
        sinks=None if inputs.sinks is None else inputs.sinks.repeat(inputs.batch),
        query_offset=inputs.query_offset,
        key_offset=inputs.key_offset,
        cross=inputs.cross,
        mask=mask,
        parts=None if inputs.parts is None else inputs.parts[:1],
    )
    return replace(task, inputs=folded, texts=inputs)


def unfold(swept: Swept, task: Task) -> Swept:
    """What the folded sweep found, as the task's own: counts that hold for all heads hold for all texts."""
    inputs = task.inputs
    states = {
        statistic.name: _as_texts(swept.states[statistic.name], inputs.batch, statistic.heads(inputs))
        for statistic in task.statistics
    }
    output = None if swept.output is None else _as_texts(swept.output, inputs.batch, inputs.query_heads)
    terms = None if swept.terms is None else swept.terms.unflatten(2, (inputs.batch, -1))[:, 0]
    return Swept(states, output, terms)


def unfolded(error: NotFiniteError, task: Task) -> NotFiniteError:
    """The refusal of a row of the folded call, as that of the text whose row it is."""
    _, head, row = error.place
    return not_finite(*divmod(head, task.inputs.query_heads), row)


class _PaddingOfTexts(Mask):
    """Real keys only, of the text whose heads are asked for: `valid[text, key]`."""

    per_head = True

    def __init__(self, valid: Tensor, heads: int, key_offset: int) -> None:
        self._valid, self.alike, self._offset = valid, heads, key_offset
        some, every = valid.any(0).tolist(), valid.all(0).tolist()
        length = len(some)
        first = next((at for at in range(length) if some[at]), length)
        last = next((at for at in range(length, first, -1) if some[at - 1]), first)
        start = next((at for at in range(length) if every[at]), length)
        stop = next((at for at in range(start, length) if not every[at]), length)
        self._visit, self._full = (first + key_offset, last + key_offset), (start + key_offset, stop + key_offset)

    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        texts = torch.arange(*heads.indices(self._valid.shape[0] * self.alike), device=key_positions.device)
        keys = self._valid[:, key_positions - self._offset]
        return keys[texts.div(self.alike, rounding_mode="floor")][:, None]

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        return Bounds.of(self._visit, self._full, (key_start, key_stop))


def _of_texts(mask: Mask, inputs: AttentionInputs) -> Mask | None:
    """The mask of a folded call, in which heads stand for texts; None where that of a text may be anything."""
    if isinstance(mask, Padding):
        valid = mask.values.expand(inputs.batch, -1).bool().to(inputs.query.device)
        return _PaddingOfTexts(valid, inputs.query_heads, mask.key_offset)
    if isinstance(mask, And):
        left, right = _of_texts(mask.left, inputs), _of_texts(mask.right, inputs)
        return None if left is None or right is None else And(left, right)
    return mask if isinstance(mask, _ALIKE) else None


def _as_heads(table: Tensor) -> Tensor:
    return table.reshape(1, -1, *table.shape[2:])


def _as_texts(table: Tensor, batch: int, heads: int) -> Tensor:
    if table.shape[1] == 1:
        return table.expand(batch, *table.shape[1:]).clone()
    return table.reshape(batch, -1, *table.shape[2:])[:, :heads]
