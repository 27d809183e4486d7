"""The attention implementation that a model had before: its own eager code, or one of transformers' interface."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from heedmap.capture.layers import INTERFACE, methods
from heedmap.capture.lazy_mask import LazyMask
from heedmap.errors import UnsupportedError

Attention = Callable[..., tuple[Tensor, Any]]


def eager_function(module: nn.Module) -> Attention | None:
    """The function that a module falls back to under `attn_implementation="eager"`: its model's reference formula."""
    for function in methods(type(module)):
        if INTERFACE not in function.__code__.co_names:
            continue
        for name in function.__code__.co_names:
            if name.endswith("eager_attention_forward"):
                return function.__globals__.get(name)
    return None


def attention_function(module: nn.Module, implementation: str) -> Attention:
    """The attention function of an implementation, as this module would look it up.

    Raises:
        UnsupportedError: there is none of that name for this module.
    """
    function: Attention | None
    if implementation == "eager":
        function = eager_function(module)
    else:
        interface = next(
            (f.__globals__[INTERFACE] for f in methods(type(module)) if INTERFACE in f.__code__.co_names),
            ALL_ATTENTION_FUNCTIONS,
        )
        function = interface.get(implementation)
    if function is None:
        raise UnsupportedError(
            "watch",
            expected=f"the {implementation} attention function of {type(module).__name__}",
            got="none that could be found",
            do="load the model with attn_implementation='sdpa'",
        )
    return function


def run_original(
    implementation: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    keywords: dict[str, Any],
) -> tuple[Tensor, Any]:
    """The call as the model would have made it without us; output `[batch, query_len, heads, value_dim]`, weights."""
    if isinstance(attention_mask, LazyMask):
        dense = attention_mask.dense(implementation)
        if dense is None and keywords.get("is_causal") is False and query.shape[2] > 1 and attention_mask.causal():
            keywords = keywords | {"is_causal": True}  # GPT-2 says False because it was handed a mask, ours
        attention_mask = dense
    return attention_function(module, implementation)(module, query, key, value, attention_mask, **keywords)


def reads_keyword(function: Attention | None, name: str) -> bool:
    """Whether a function takes a keyword by name or asks its `**kwargs` for it."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] or name in code.co_consts
