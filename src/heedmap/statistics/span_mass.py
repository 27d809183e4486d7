from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.statistics.base import Grid, RowValues
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip


class _Mass(RowValues):
    """What each row gives to each of some named sets of keys, `[batch, head, query, set]`."""

    unit = "weight"
    formula = "Σ_{k in set} w"
    over_rows = "mean"
    dimension: str

    def sets(self, inputs: AttentionInputs) -> Mapping[str, Tensor]:
        return getattr(inputs, self.needs)

    def further(self, inputs: AttentionInputs, grid: Grid) -> tuple[str, tuple[str, ...]]:
        return self.dimension, tuple(self.sets(inputs))

    def values(self, strip: Strip, grid: Grid) -> Tensor:
        columns = torch.stack([keys[strip.batch] for keys in self.sets(strip.inputs).values()], dim=-1)
        return strip.weights @ columns[strip.key_start : strip.key_stop].to(strip.weights.dtype)

    def definition(self, dense: Dense) -> Tensor:
        sets = [torch.where(keys[:, None, None], dense.weights, 0).sum(-1) for keys in self.sets(dense.inputs).values()]
        return torch.stack(sets, dim=-1).masked_fill(~dense.valid[:, None, :, None], torch.nan)


class SpanMass(_Mass):
    """How much of each query's attention falls on each named span: system prompt, passage 1, passage 2, question."""

    name = "span_mass"
    needs = "spans"
    dimension = "span"


class ClassMass(_Mass):
    """How much of each query's attention falls on each kind of token: special tokens, punctuation."""

    name = "class_mass"
    needs = "classes"
    dimension = "class"
    source = "Clark et al. 2019, §3.2"
