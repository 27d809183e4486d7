"""The formula of one attention call as plain data: what a run keeps beside query and key to compute weights again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks.base import Mask
from heedmap.attention.masks.combine import And
from heedmap.attention.masks.structured import Everything


@dataclass(frozen=True)
class Formula:
    """All that enters `weights = softmax(softcap · tanh(scale · query keyᵀ / softcap) + mask, sinks)`.

    Everything is plain data in positions of the text; `masks` holds one description for each batch item.
    """

    scale: float
    softcap: float | None
    sinks: tuple[float, ...] | None
    """One logit for each query head of the model."""
    masks: tuple[dict[str, Any], ...]
    query_heads: int
    key_heads: int
    head_dim: int
    query_len: int
    key_len: int
    query_offset: int
    key_offset: int
    cross: bool
    dropout: float
    """Share of weights that training dropped after the softmax; weights are reported before that."""

    @property
    def mask(self) -> dict[str, Any]:
        """The description of the first batch item's mask."""
        return self.masks[0]

    @classmethod
    def of(cls, inputs: AttentionInputs, dropout: float = 0.0) -> Formula:
        """The formula of a call on all its heads."""
        return cls(
            scale=inputs.scale,
            softcap=inputs.softcap,
            sinks=None if inputs.sinks is None else tuple(inputs.sinks.tolist()),
            masks=tuple(describe(inputs.mask, item) for item in range(inputs.batch)),
            query_heads=inputs.query_heads,
            key_heads=inputs.key_heads,
            head_dim=inputs.head_dim,
            query_len=inputs.query_len,
            key_len=inputs.key_len,
            query_offset=inputs.query_offset,
            key_offset=inputs.key_offset,
            cross=inputs.cross,
            dropout=dropout,
        )

    def entry(self, part: str, layer: int, module: str, heads: list[int]) -> dict[str, Any]:
        """What `run.json` says about one layer; `heads` are those measured."""
        return {
            "part": part,
            "layer": layer,
            "module": module,
            "query_heads": self.query_heads,
            "key_heads": self.key_heads,
            "heads": heads,
            "head_dim": self.head_dim,
            "query_len": self.query_len,
            "key_len": self.key_len,
            "query_offset": self.query_offset,
            "key_offset": self.key_offset,
            "scale": self.scale,
            "softcap": self.softcap,
            "sinks": None if self.sinks is None else list(self.sinks),
            "mask": self.mask,
            "cross": self.cross,
        }


def describe(mask: Mask | None, item: int = 0) -> dict[str, Any]:
    """A mask of one batch item as plain data; `{"kind": "opaque", "why": …}` where there is none."""
    if mask is None or isinstance(mask, Everything):
        return {"kind": "all"}
    described = mask.describe(item)
    if described is not None:
        return described
    return {"kind": "opaque", "why": _why(mask)}


def _why(mask: Mask) -> str:
    if mask.biased:
        return "a position bias or an additive mask tensor is part of the scores"
    if isinstance(mask, And):
        return next(_why(part) for part in (mask.left, mask.right) if part.describe(0) is None)
    return getattr(mask, "why", "the mask was given as a tensor or as a function")
