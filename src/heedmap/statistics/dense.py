"""The whole n×n table from the textbook form: what definitions of statistics are written over."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.reference import dense_attention


@dataclass(frozen=True)
class Dense:
    """Weights and what they came from, `[batch, heads, query, key]`; rows that are left out hold 0.

    In float64 it is the oracle; in float32 the plain implementation whose error is the measure of every kernel's.
    """

    inputs: AttentionInputs
    scores: Tensor
    """Scaled, softcapped, masked; −∞ where hidden."""
    allowed: Tensor
    """Pairs that may attend, of rows that count."""
    weights: Tensor
    output: Tensor | None
    """Output of every row, also of those that are left out."""
    sink: Tensor
    """Weight of each row's sink, `[batch, heads, query]`; 0 without."""
    valid: Tensor
    """Rows that count, bool `[batch, query]`."""
    distance: Tensor
    """Query position - key position, `[query, key]`."""

    @classmethod
    def of(cls, inputs: AttentionInputs, dtype: torch.dtype = torch.float64) -> Dense:
        repeat = inputs.query_heads // inputs.key_heads
        query = inputs.query.to(dtype)
        key = inputs.key.to(dtype).repeat_interleave(repeat, dim=1)
        value = torch.zeros_like(key) if inputs.value is None else inputs.value.to(dtype).repeat_interleave(repeat, 1)
        device = query.device
        q_at = torch.arange(inputs.query_len, device=device) + inputs.query_offset
        k_at = torch.arange(inputs.key_len, device=device) + inputs.key_offset
        shape = (inputs.query_heads, inputs.query_len, inputs.key_len)
        allowed = torch.ones(inputs.batch, *shape, dtype=torch.bool, device=device)
        additive = torch.zeros(inputs.batch, *shape, dtype=dtype, device=device)
        if inputs.mask is not None:
            for batch in range(inputs.batch):
                allowed[batch] = inputs.mask.allowed(batch, q_at, k_at).expand(shape)
                bias = inputs.mask.bias(batch, q_at, k_at)
                if bias is not None:
                    additive[batch] = bias.to(dtype)
        sinks = None if inputs.sinks is None else inputs.sinks.to(dtype)
        output, weights = dense_attention(
            query, key, value, allowed, additive, scale=inputs.scale, softcap=inputs.softcap, sinks=sinks
        )
        scores = (query @ key.nan_to_num(0, 0, 0).transpose(-2, -1)) * inputs.scale
        if inputs.softcap is not None:
            scores = inputs.softcap * torch.tanh(scores / inputs.softcap)
        valid = inputs.valid_queries
        if valid is None:
            valid = torch.ones(inputs.batch, inputs.query_len, dtype=torch.bool, device=device)
        row = valid[:, None, :, None]
        sink = weights.new_zeros(weights.shape[:3])
        if sinks is not None:
            sink = (1 - weights.sum(-1)).clamp_min(0)
        return cls(
            inputs,
            (scores + additive).masked_fill(~allowed, -torch.inf),
            allowed & row,
            weights.masked_fill(~row, 0),
            None if inputs.value is None else output,
            sink,
            valid,
            q_at[:, None] - k_at[None, :],
        )

    @property
    def logits(self) -> Tensor:
        """All that the softmax runs over, `[batch, heads, query, key]`: the scores and, with sinks, one more column."""
        if self.inputs.sinks is None:
            return self.scores
        column = self.inputs.sinks.to(self.scores.dtype)[None, :, None, None].expand(*self.scores.shape[:3], 1)
        return torch.cat([self.scores, column], dim=-1)

    @property
    def value_norms(self) -> Tensor:
        """‖v‖ of each key, `[batch, heads, key]`; 0 where a value holds NaN or infinity."""
        assert self.inputs.value is not None
        repeat = self.inputs.query_heads // self.inputs.key_heads
        norms = torch.linalg.vector_norm(self.inputs.value.to(self.weights.dtype), dim=-1).nan_to_num(0, 0, 0)
        return norms.repeat_interleave(repeat, dim=1)

    def left_out(self, rows: Tensor, missing: float = float("nan")) -> Tensor:
        """A row statistic `[batch, heads, query]` with rows that do not count marked as missing."""
        return rows.masked_fill(~self.valid[:, None, :], missing)
