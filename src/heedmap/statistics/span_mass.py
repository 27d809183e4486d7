from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs
from heedmap.statistics.base import Grid, RowValues
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip

ALL_TEXTS = slice(None)


class Mass(RowValues):
    """What each row gives to each of some sets of keys, `[batch, head, query, set]`: weights times columns."""

    unit = "weight"

    @abstractmethod
    def columns(self, inputs: AttentionInputs, texts: slice = ALL_TEXTS) -> Tensor:
        """How much of each key is in each set, the same for all heads: `[texts or 1, key_len, sets]`."""

    def values(self, strip: Strip, grid: Grid) -> Tensor:
        return strip.once(self.name, lambda: self._product(strip))

    def _product(self, strip: Strip) -> Tensor:
        columns = self.columns(strip.inputs, slice(strip.batch, strip.batch + 1))[0, strip.key_start : strip.key_stop]
        return strip.weights @ columns.to(strip.weights.dtype)

    def definition(self, dense: Dense) -> Tensor:
        mass = dense.weights @ self.columns(dense.inputs)[:, None].to(dense.weights.dtype)
        return mass.masked_fill(~dense.valid[:, None, :, None], torch.nan)


class _NamedMass(Mass):
    formula = "Σ_{k in set} w"
    over_rows = "mean"
    dimension: str

    def sets(self, inputs: AttentionInputs) -> Mapping[str, Tensor]:
        return getattr(inputs, self.needs)

    def further(self, inputs: AttentionInputs, grid: Grid) -> tuple[str, tuple[str, ...]]:
        return self.dimension, tuple(self.sets(inputs))

    def columns(self, inputs: AttentionInputs, texts: slice = ALL_TEXTS) -> Tensor:
        return torch.stack([keys[texts] for keys in self.sets(inputs).values()], dim=-1)


class SpanMass(_NamedMass):
    """How much of each query's attention falls on each named span: system prompt, passage 1, passage 2, question."""

    name = "span_mass"
    needs = "spans"
    dimension = "span"


class ClassMass(_NamedMass):
    """How much of each query's attention falls on each kind of token: special tokens, punctuation."""

    name = "class_mass"
    needs = "classes"
    dimension = "class"
    source = "Clark et al. 2019, §3.2"


class PartMass(Mass):
    """How much of each query's attention falls on each part of the text, where a token may lie across two of them."""

    name = "part_mass"
    needs = "parts"
    formula = "Σ_k w · share of k in the part"

    def further(self, inputs: AttentionInputs, grid: Grid) -> tuple[str, tuple[str, ...]]:
        assert inputs.parts is not None
        return "part", tuple(map(str, range(inputs.parts.shape[-1])))

    def columns(self, inputs: AttentionInputs, texts: slice = ALL_TEXTS) -> Tensor:
        assert inputs.parts is not None
        return inputs.parts if inputs.parts.shape[0] == 1 else inputs.parts[texts]
