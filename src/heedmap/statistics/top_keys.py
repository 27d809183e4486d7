from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.statistics.base import Grid, RowValues
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip

TOP = 10
"""Keys kept of each row unless told otherwise."""


class _Ranked(RowValues):
    """Values or keys of the largest entries of a row, sorted, lower keys first on ties: `[…, query, rank]`."""

    keys: bool
    """Whether the keys are asked for, as text positions; else the values."""
    ranking: str
    """The name of what the keys are ranked by; values and keys of one ranking are found together."""

    def further(self, inputs: AttentionInputs, grid: Grid) -> tuple[str, tuple[str, ...]]:
        return "rank", tuple(str(rank) for rank in range(grid.top))

    def dtype(self, inputs: AttentionInputs) -> torch.dtype:
        return torch.int64 if self.keys else inputs.compute_dtype

    def missing(self) -> float:
        return -1 if self.keys else float("nan")

    def values(self, strip: Strip, grid: Grid) -> Tensor:
        return strip.once(f"ranked by {self.ranking}", lambda: strip.top_keys(self.ranked(strip), grid.top))[self.keys]

    @abstractmethod
    def ranked(self, strip: Strip) -> Tensor:
        """What the keys are ranked by, `[heads, rows, keys]`, at least 0."""

    @abstractmethod
    def dense_ranked(self, dense: Dense) -> Tensor: ...

    def definition(self, dense: Dense) -> Tensor:
        table = self.dense_ranked(dense).masked_fill(~dense.allowed, -1)
        count = min(TOP, dense.inputs.key_len)
        values, index = (part[..., :count] for part in table.sort(dim=-1, descending=True, stable=True))
        out = ~dense.valid[:, None, :, None]
        if self.keys:
            return (index + dense.inputs.key_offset).masked_fill((values < 0) | out, -1)
        return values.clamp_min(0).masked_fill(out, torch.nan)


class _ByWeight(_Ranked):
    ranking = "weight"

    def ranked(self, strip: Strip) -> Tensor:
        return strip.weights

    def dense_ranked(self, dense: Dense) -> Tensor:
        return dense.weights


class TopKeys(_ByWeight):
    """The keys that a query attends to most, as text positions, sorted by weight; −1 where it sees fewer."""

    name = "top_keys"
    keys = True
    unit = "position"
    formula = "argtop_k w"


class TopWeights(_ByWeight):
    """The weights of `top_keys`."""

    name = "top_weights"
    keys = False
    unit = "weight"
    formula = "top_k w"


class _ByContribution(_Ranked):
    ranking = "value-weighted"
    needs = "value"

    def ranked(self, strip: Strip) -> Tensor:
        return torch.mul(strip.weights, strip.value_norms[:, None], out=strip.scratch)

    def dense_ranked(self, dense: Dense) -> Tensor:
        return dense.weights * dense.value_norms[:, :, None]


class ValueTopKeys(_ByContribution):
    """The keys that move a query's output most: ranked by weight times the length of the key's value vector."""

    name = "value_top_keys"
    keys = True
    unit = "position"
    formula = "argtop_k ‖w v_k‖"
    source = "Kobayashi et al. 2020"


class ValueTopWeights(_ByContribution):
    """What the keys of `value_top_keys` contribute."""

    name = "value_top_weights"
    keys = False
    unit = "length of value"
    formula = "top_k ‖w v_k‖"
    source = "Kobayashi et al. 2020"
