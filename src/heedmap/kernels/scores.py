"""Matrix products over a strip, in the shapes that the matrix library likes."""

from __future__ import annotations

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.kernels.plan import Block
from heedmap.statistics.strip import Strip

CHUNK = 128
"""Keys looked at together when the largest score of a long row is sought."""


def product(query: Tensor, key: Tensor, block: Block, inputs: AttentionInputs, out: Tensor) -> None:
    """Scores of a strip: `query [heads, rows, head_dim]` against `key [key_heads, key_len, head_dim]`, into `out`.

    Query heads that share a key head are stacked into one product, so that no key is repeated.
    """
    keys = key[key_heads(inputs, block.head_start, block.head_stop), block.key_start : block.key_stop]
    groups = keys.shape[0]
    stacked = query.reshape(groups, -1, query.shape[-1])
    multiply(stacked, keys.transpose(1, 2), out=out.view(groups, -1, out.shape[-1]))


def multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    """`left [groups, rows, inner]` times `right [groups, inner, columns]`, into `out`."""
    if left.shape[0] == 1:
        torch.mm(left[0], right[0], out=out[0])
    else:
        torch.bmm(left, right, out=out)


def add_product(left: Tensor, right: Tensor, to: Tensor) -> None:
    """Add a product to where it belongs; as a table of its own it would be made afresh for every strip."""
    if left.shape[0] == 1:
        to[0].addmm_(left[0], right[0])
    else:
        to.baddbmm_(left, right)


def weighted_values(strip: Strip, value: Tensor | None, spoiled: Tensor | None) -> Tensor:
    """Output rows of a strip, `[heads, rows, value_dim]`: weights · value.

    Where values hold NaN or infinity (`spoiled`, already 0 in `value`), rows that may see them come out as NaN and
    no others: 0 · NaN would reach them all.
    """
    assert value is not None
    values = value[key_heads(strip.inputs, strip.head_start, strip.head_stop), strip.key_start : strip.key_stop]
    groups = values.shape[0]
    stacked = strip.weights.unflatten(0, (groups, -1))
    heads, rows = strip.weights.shape[:2]
    output = torch.stack([torch.matmul(stacked[g], values[g]) for g in range(groups)]).reshape(heads, rows, -1)
    if spoiled is None:
        return output
    bad = spoiled[key_heads(strip.inputs, strip.head_start, strip.head_stop), strip.key_start : strip.key_stop]
    seen = torch.ones_like(strip.weights)
    for segment in strip.segments:
        seen[..., segment.start - strip.key_start : segment.stop - strip.key_start] = segment.allowed
    repeat = heads // groups
    touched = torch.matmul(seen, bad.to(seen.dtype).repeat_interleave(repeat, 0)) > 0
    return output.masked_fill(touched, torch.nan)


def largest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Largest score of each row and its lowest index, `[heads, rows]`.

    Long rows are searched by chunks: a maximum with its index is eight times slower than a maximum alone.
    """
    keys = scores.shape[-1]
    if keys < 8 * CHUNK:
        best = scores.max(-1)
        return best.values, best.indices
    whole = keys // CHUNK * CHUNK
    chunks = scores[..., :whole].unflatten(-1, (-1, CHUNK)).amax(-1)
    if whole < keys:
        chunks = torch.cat([chunks, scores[..., whole:].amax(-1, keepdim=True)], dim=-1)
    best = chunks.max(-1)
    index = best.indices[..., None] * CHUNK + torch.arange(CHUNK, device=scores.device)
    near = scores.gather(-1, index.clamp_max(keys - 1))
    return best.values, best.indices * CHUNK + near.max(-1).indices


def key_heads(inputs: AttentionInputs, head_start: int, head_stop: int) -> slice:
    """The key heads that query heads `[head_start, head_stop)` share."""
    group = inputs.query_heads // inputs.key_heads
    return slice(head_start // group, (head_stop - 1) // group + 1)
