"""How far the raw scores of each head spread, over the pairs that may attend, in memory linear in length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from heedmap.attention.inputs import AttentionInputs

BLOCK_ELEMENTS = 2**22


@dataclass(frozen=True)
class Spreads:
    """Standard deviations of q·k for each query head, before scale, softcap and mask bias."""

    overall: np.ndarray
    within_row: np.ndarray
    """About each row's own mean, root mean square over rows: a constant that is added to a row changes no weight."""


@torch.no_grad()
def score_spreads(inputs: AttentionInputs) -> Spreads:
    """Spreads over the first batch item's pairs that its mask allows; NaN where there are none."""
    heads, group = inputs.query_heads, inputs.query_heads // inputs.key_heads
    keys = inputs.key[0].double().repeat_interleave(group, 0).transpose(1, 2)
    key_at = torch.arange(inputs.key_len, device=keys.device) + inputs.key_offset
    pairs, total, squares, inner = (torch.zeros(heads, dtype=torch.float64, device=keys.device) for _ in range(4))
    step = max(1, BLOCK_ELEMENTS // (heads * inputs.key_len))
    for start in range(0, inputs.query_len, step):
        rows = slice(start, min(start + step, inputs.query_len))
        scores = inputs.query[0, :, rows].double() @ keys
        allowed = torch.ones_like(scores, dtype=torch.bool)
        if inputs.mask is not None:
            query_at = torch.arange(rows.start, rows.stop, device=keys.device) + inputs.query_offset
            allowed &= inputs.mask.allowed(0, query_at, key_at, slice(0, heads))
        if inputs.valid_queries is not None:
            allowed &= inputs.valid_queries[0, rows][:, None]
        scores = scores.masked_fill(~allowed, 0)
        count = allowed.sum(-1).double()
        sums, sums_of_squares = scores.sum(-1), scores.square().sum(-1)
        pairs += count.sum(-1)
        total += sums.sum(-1)
        squares += sums_of_squares.sum(-1)
        inner += (sums_of_squares - sums.square() / count.clamp_min(1)).sum(-1)
    variance = squares / pairs - (total / pairs).square()
    return Spreads(variance.clamp_min(0).sqrt().cpu().numpy(), (inner / pairs).clamp_min(0).sqrt().cpu().numpy())
