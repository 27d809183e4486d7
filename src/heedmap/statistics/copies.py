from __future__ import annotations

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks.base import ALL_HEADS
from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class _Copies(RowStatistic):
    """The weight on keys that stand `after` places behind an earlier copy of the query's token, itself left out.

    The copy is one in the query's own text: a token of padding or of another document is none. Rows that may see no
    such key are left out (NaN).
    """

    unit = "weight"
    positional = True
    needs = "token_ids"
    after: int

    def matches(
        self, inputs: AttentionInputs, batch: int, rows: Tensor, keys: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor:
        """Whether a key stands `after` places behind an earlier copy, bool `[heads or 1, rows, keys]`, by index within
        the call."""
        assert inputs.token_ids is not None
        ids = inputs.token_ids[batch]
        query_at = rows + inputs.query_offset - inputs.key_offset
        copy_at = keys - self.after
        known = (query_at >= 0) & (query_at < ids.shape[0])
        asked = ids[query_at.clamp(0, ids.shape[0] - 1)]
        offered = ids[copy_at.clamp_min(0)]
        earlier = (copy_at >= 0)[None, :] & (keys[None, :] < query_at[:, None])
        found = ((asked[:, None] == offered[None, :]) & earlier & known[:, None])[None]
        if self.after and inputs.mask is not None:
            copies = copy_at.clamp_min(0) + inputs.key_offset
            own = inputs.mask.same_text(batch, rows + inputs.query_offset, copies, heads)
            found = found if own is None else found & own
        return found

    def term(self, strip: Strip) -> Tensor:
        rows = torch.arange(strip.row_start, strip.row_stop, device=strip.weights.device)
        keys = torch.arange(strip.key_start, strip.key_stop, device=strip.weights.device)
        heads = slice(strip.head_start, strip.head_stop)
        matches = self.matches(strip.inputs, strip.batch, rows, keys, heads)
        mass = torch.mul(strip.weights, matches, out=strip.scratch).sum(-1)
        seen = matches.sum(-1)
        for segment in strip.segments:
            seen = seen - (matches[..., strip.span(segment)] & ~segment.allowed).sum(-1)
        return mass.masked_fill(seen == 0, torch.nan)

    def definition(self, dense: Dense) -> Tensor:
        inputs, device = dense.inputs, dense.weights.device
        rows, keys = torch.arange(inputs.query_len, device=device), torch.arange(inputs.key_len, device=device)
        matches = torch.stack([self.matches(inputs, batch, rows, keys) for batch in range(inputs.batch)])
        seen = (matches & dense.allowed).any(-1)
        return dense.left_out((dense.weights * matches).sum(-1).masked_fill(~seen, torch.nan))


class Duplicate(_Copies):
    """The weight on earlier copies of the same token."""

    name = "duplicate"
    formula = "Σ_{j < i, t_j = t_i} w[i, j]"
    source = "Wang et al. 2022 (duplicate-token heads)"
    after = 0


class Induction(_Copies):
    """The weight on the tokens that followed earlier copies of the same token: what continues a repeated pattern.

    A copy in padding or in another document is none, even where the token that follows it may be seen.
    """

    name = "induction"
    formula = "Σ_{j < i, t_(j-1) = t_i} w[i, j]"
    source = "Olsson et al. 2022 (prefix matching)"
    after = 1
