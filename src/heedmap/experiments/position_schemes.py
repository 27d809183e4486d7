"""How an attention layer knows where tokens stand: rotary, learned, a bias by distance, or not at all."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

_LEARNED = re.compile(
    r"(^|\.)(position_embeddings?|wpe|embed_positions?|pos_embed(ding)?s?|positional_embeddings?|position_encoding)$"
)


def position_scheme(model: nn.Module, module: nn.Module, name: str, layer: int, *, biased: bool) -> str:
    """The position scheme of one attention module, in words.

    Args:
        model: the whole model, in which the nearest position module above the attention counts.
        module: the attention module.
        name: its name in the model.
        layer: its number, by which a config tells its layers apart.
        biased: whether the call came with a bias by distance.
    """
    if biased:
        return "bias by distance"
    config = getattr(module, "config", None)
    if _without(config, module, layer):
        return "none"
    path = name.split(".")
    for end in range(len(path), -1, -1):
        above = model.get_submodule(".".join(path[:end])) if end else model
        found = _within(above, config, layer)
        if found is not None:
            return found
    return _rotary(config, layer) if _theta(config, layer) is not None else "none"


def _without(config: Any, module: nn.Module, layer: int) -> bool:
    """Whether a model with rotary positions leaves this layer without."""
    flags = getattr(config, "no_rope_layers", None)  # SmolLM3, Llama 4: 1 where a layer has them
    if isinstance(flags, list | tuple) and 0 <= layer < len(flags):
        return not flags[layer]
    return getattr(module, "use_rope", None) in (False, 0)


def _within(above: nn.Module, config: Any, layer: int) -> str | None:
    learned: str | None = None
    for name, inner in above.named_modules():
        kind = type(inner).__name__.lower()
        if "rotary" in kind or kind.endswith(("rope", "ropeembedding")):
            return _rotary(config, layer)
        if "relativeposition" in kind or "relative_attention_bias" in name:
            return "bias by distance"
        if "alibi" in kind:
            return "slope by distance (ALiBi)"
        if _LEARNED.search(name) and not isinstance(inner, nn.Identity):
            fixed = "sinusoid" in kind or not all(table.requires_grad for table in inner.parameters())
            learned = "fixed, added to the input" if fixed else "learned, added to the input"
    if learned is None and any(_LEARNED.search(name) for name, _ in above.named_parameters()):
        learned = "learned, added to the input"
    return learned


def _parameters(config: Any, layer: int) -> Any:
    found = getattr(config, "rope_parameters", None)
    kinds = getattr(config, "layer_types", None)
    if isinstance(found, dict) and isinstance(kinds, list) and layer < len(kinds) and kinds[layer] in found:
        return found[kinds[layer]]
    return found if isinstance(found, dict) else {}


def _theta(config: Any, layer: int) -> float | None:
    theta = _parameters(config, layer).get("rope_theta", getattr(config, "rope_theta", None))
    return float(theta) if isinstance(theta, int | float) else None


def _rotary(config: Any, layer: int) -> str:
    words = "rotary"
    settings = _parameters(config, layer)
    part = settings.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None))
    if isinstance(part, int | float) and part < 1:
        words += f" on {part:.0%} of each head"
    theta = _theta(config, layer)
    if theta is not None:
        words += f", base {theta:,.0f}"
    kind = settings.get("rope_type")
    if isinstance(kind, str) and kind != "default":
        words += f", {kind}"
    return words
