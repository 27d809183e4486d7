"""What a strip asks of the mask, and the refusal of scores that are no numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import InputError
from heedmap.kernels.plan import Block
from heedmap.statistics.strip import Segment


def doubtful_segments(inputs: AttentionInputs, block: Block) -> tuple[Segment, ...]:
    """Where pairs may be hidden; the mask is asked only where its bounds leave a doubt."""
    mask = inputs.mask
    if mask is None:
        return ()
    segments: list[Segment] = []
    for start, stop in ((block.key_start, block.full_start), (block.full_stop, block.key_stop)):
        if stop > start:
            allowed = mask.allowed(block.batch, *_positions(inputs, block, start, stop), _heads(block))
            allowed = allowed.reshape((1,) * (3 - allowed.dim()) + tuple(allowed.shape))
            segments.append(Segment(start, stop, allowed.expand(-1, block.row_stop - block.row_start, stop - start)))
    return tuple(segments)


def bias_of(inputs: AttentionInputs, block: Block) -> Tensor | None:
    """What the mask adds to the scores of a strip, broadcastable to `[heads, rows, keys]`."""
    mask = inputs.mask
    if mask is None or not mask.biased:
        return None
    return mask.bias(block.batch, *_positions(inputs, block, block.key_start, block.key_stop), _heads(block))


class NotFiniteError(InputError):
    """A row that counts and whose scores have no finite sum; `place` is its batch item, head and row in the call."""

    place: tuple[int, int, int] = (0, 0, 0)


def not_finite(batch: int, head: int, row: int) -> NotFiniteError:
    """The refusal of a row that counts and whose scores have no finite sum."""
    error = NotFiniteError(
        "measure",
        expected="finite scores for every pair that may attend",
        got=f"NaN or infinity at batch {batch}, head {head}, row {row}",
        do="look for NaN or infinity in query or key, or hide those keys with a mask",
    )
    error.place = batch, head, row
    return error


def _positions(inputs: AttentionInputs, block: Block, key_start: int, key_stop: int) -> tuple[Tensor, Tensor]:
    device = inputs.query.device
    queries = torch.arange(block.row_start + inputs.query_offset, block.row_stop + inputs.query_offset, device=device)
    keys = torch.arange(key_start + inputs.key_offset, key_stop + inputs.key_offset, device=device)
    return queries, keys


def _heads(block: Block) -> slice:
    return slice(block.head_start, block.head_stop)
