from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.statistics.base import RowStatistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class _Share(RowStatistic):
    """The weight of one key of each row; rows that may not see that key are left out (NaN)."""

    unit = "weight"
    positional = True

    @abstractmethod
    def key_index(self, inputs: AttentionInputs, batch: int, rows: Tensor) -> Tensor:
        """Index within the call of the key asked about, for rows (indices within the call)."""

    def term(self, strip: Strip) -> Tensor:
        rows = torch.arange(strip.row_start, strip.row_stop, device=strip.weights.device)
        return strip.pick(self.key_index(strip.inputs, strip.batch, rows))

    def definition(self, dense: Dense) -> Tensor:
        inputs = dense.inputs
        rows = torch.arange(inputs.query_len, device=dense.weights.device)
        shares = torch.full_like(dense.weights[..., 0], torch.nan)
        for batch in range(inputs.batch):
            keys = self.key_index(inputs, batch, rows)
            for row, key in enumerate(keys.tolist()):
                if 0 <= key < inputs.key_len:
                    seen = dense.allowed[batch, :, row, key]
                    shares[batch, :, row] = dense.weights[batch, :, row, key].masked_fill(~seen, torch.nan)
        return dense.left_out(shares)


def _same(inputs: AttentionInputs, rows: Tensor) -> Tensor:
    """Index of the key that is the query's own token."""
    return rows + inputs.query_offset - inputs.key_offset


class SelfShare(_Share):
    """The weight that a token gives itself."""

    name = "self"
    formula = "w[i, i]"

    def key_index(self, inputs: AttentionInputs, batch: int, rows: Tensor) -> Tensor:
        return _same(inputs, rows)


class PreviousShare(_Share):
    """The weight that a token gives the one before it; rows that may see a previous token count."""

    name = "previous"
    formula = "w[i, i - 1]"
    source = "Clark et al. 2019, §3.1"

    def key_index(self, inputs: AttentionInputs, batch: int, rows: Tensor) -> Tensor:
        return _same(inputs, rows) - 1


class NextShare(_Share):
    """The weight that a token gives the one after it; rows that may see a next token count (none in causal models)."""

    name = "next"
    formula = "w[i, i + 1]"
    source = "Clark et al. 2019, §3.1"

    def key_index(self, inputs: AttentionInputs, batch: int, rows: Tensor) -> Tensor:
        return _same(inputs, rows) + 1


class FirstTokenShare(_Share):
    """The weight on the first real token, the usual attention sink; rows that see nothing else are left out."""

    name = "first_token"
    formula = "w[i, first]"
    source = "Xiao et al. 2023"
    positional = False

    def key_index(self, inputs: AttentionInputs, batch: int, rows: Tensor) -> Tensor:
        return torch.full_like(rows, first_key(inputs, batch))

    def term(self, strip: Strip) -> Tensor:
        return super().term(strip).masked_fill(strip.visible == 1, torch.nan)

    def definition(self, dense: Dense) -> Tensor:
        return super().definition(dense).masked_fill(dense.allowed.sum(-1) == 1, torch.nan)


def first_key(inputs: AttentionInputs, batch: int) -> int:
    """Index of the first key that the mask shows to any row: 0, or the first real token after left padding."""
    if inputs.mask is None:
        return 0
    rows = inputs.query_offset, inputs.query_offset + inputs.query_len
    keys = inputs.key_offset, inputs.key_offset + inputs.key_len
    return inputs.mask.bounds(batch, *rows, *keys).visit_start - inputs.key_offset
