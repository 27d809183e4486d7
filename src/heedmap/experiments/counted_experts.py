"""A mixture of experts counted on the meta device, which has no values that could choose an expert."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.integrations import moe

NAME = "heedmap_counted"


def count_experts(config: Any) -> None:
    """Let the experts of a model with this config be counted; transformers before 5 has no such interface.

    A token goes through as many experts as the config says, and they are all of one size: which ones they are changes
    neither operations nor memory of activations.
    """
    interface = getattr(moe, "ALL_EXPERTS_FUNCTIONS", None)
    if interface is not None:
        interface.register(NAME, _experts)
        config._experts_implementation_internal = NAME


def _experts(experts: Any, hidden: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
    """hidden `[tokens, width]` through `chosen` `[tokens, k]`, in `shares` of the same shape."""
    each = chosen.shape[-1]
    inner = _product(experts, hidden.repeat_interleave(each, 0), experts.gate_up_proj if experts.has_gate else (
        experts.up_proj))  # fmt: skip
    inner = experts._apply_gate(inner) if experts.has_gate else experts.act_fn(inner)
    out = _product(experts, inner, experts.down_proj) * shares.reshape(-1, 1)
    return out.view(-1, each, out.shape[-1]).sum(1).to(hidden.dtype)


def _product(experts: Any, rows: Tensor, weights: Tensor) -> Tensor:
    first = weights[0]
    return rows @ (first if experts.is_transposed else first.transpose(0, 1))
