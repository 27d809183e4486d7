"""The textbook form of attention, with its n×n weights: the specification that everything else is held to."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from heedmap.attention.checks import positive
from heedmap.attention.masks.polarity import read_mask
from heedmap.errors import InputError

WHERE = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and weights of softmax attention.

        scores = scale · query keyᵀ            [..., query_len, key_len]
        scores = softcap · tanh(scores / softcap)                        (with a softcap)
        weights = softmax(scores + mask)       over keys, and one extra logit for each head (with sinks)
        output = weights · value               [..., query_len, value_dim]

    Args:
        query: `[..., query_len, head_dim]`, floating point; results have its dtype, and gradients flow.
        key: `[..., key_len, head_dim]`; leading dimensions broadcast against the query's.
        value: `[..., key_len, value_dim]`.
        mask: broadcastable to the scores. Booleans and integers 0/1: 0 hides. Floats are added, −∞ hides.
            Hidden means hidden: NaN or infinity of a hidden key or value reaches nothing.
        scale: 1/√head_dim unless given.
        softcap: a bound on the scores' size (Gemma 2); applied before the mask.
        sinks: one logit for each head, `[heads]`, that takes its share of the softmax and is then dropped (gpt-oss).

    Returns:
        `(output, weights)`. A query with no allowed key has output 0 and weights 0.

    Raises:
        InputError: shapes or dtypes that do not fit, or a float mask of only 0 and 1.

    Source: Vaswani et al. 2017, §3.2.1.
    """
    _check(query, key, value, scale, softcap)
    if sinks is not None:
        _check_sinks(sinks, query, key)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    allowed, bias = torch.ones((), dtype=torch.bool, device=query.device), None
    if mask is not None:
        if not isinstance(mask, Tensor):
            raise InputError(
                WHERE,
                expected="the mask as a torch tensor",
                got=type(mask).__name__,
                do="give one of booleans, such as torch.ones(length, length).tril().bool() for causal; masks of "
                "heedmap.masks are for measure and attend",
            )
        allowed, bias = read_mask(WHERE, mask)
        _check_broadcast(allowed, query, key)
    return dense_attention(query, key, value, allowed, bias, scale=scale, softcap=softcap, sinks=sinks)


def dense_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor,
    bias: Tensor | None,
    *,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """`scaled_dot_product_attention` with its mask already read: pairs that may attend, and what is added to them."""
    query, spoiled_queries = _without_nonfinite(query)
    key, spoiled_keys = _without_nonfinite(key)
    scores = (query @ key.transpose(-2, -1)) * scale
    scores = scores.masked_fill(spoiled_queries.any(-1)[..., None], torch.nan)
    scores = scores.masked_fill(spoiled_keys.any(-1)[..., None, :], torch.nan)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)

    if bias is not None:
        scores = scores + bias
    weights = _softmax(scores.masked_fill(~allowed, -torch.inf), sinks)
    value, spoiled_values = _without_nonfinite(value)
    output = weights @ value
    if bool(spoiled_values.any()):
        seen = allowed.expand(scores.shape).to(value.dtype) @ spoiled_values.to(value.dtype)
        output = output.masked_fill(seen > 0, torch.nan)
    return output, weights


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    logits = scores
    if sinks is not None:
        column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        logits = torch.cat([scores, column], dim=-1)
    empty = (logits == -torch.inf).all(-1, keepdim=True)
    weights = torch.softmax(logits.masked_fill(empty, 0), dim=-1).masked_fill(empty, 0)
    return weights[..., : scores.shape[-1]]


def _without_nonfinite(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with NaN and infinity replaced by 0, and where: 0 · NaN would otherwise reach sums and gradients."""
    spoiled = ~torch.isfinite(rows)
    return rows.masked_fill(spoiled, 0), spoiled


def _check(query: Tensor, key: Tensor, value: Tensor, scale: float | None, softcap: float | None) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.dim() < 2:
            got = f"{tensor.dtype} {list(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise InputError(WHERE, expected=f"{name} as a floating point tensor [..., length, dim]", got=got)
    if query.shape[-1] != key.shape[-1] or query.shape[-1] == 0:
        raise InputError(WHERE, expected="query and key of one head_dim", got=f"{query.shape[-1]} and {key.shape[-1]}")
    if key.shape[-2] != value.shape[-2]:
        raise InputError(WHERE, expected="key and value of equal length", got=f"{key.shape[-2]} and {value.shape[-2]}")
    if not query.dtype == key.dtype == value.dtype:
        raise InputError(WHERE, expected="one dtype", got=f"{query.dtype}, {key.dtype} and {value.dtype}")
    for name, number in (("scale", scale), ("softcap", softcap)):
        if number is not None:
            positive(WHERE, name, number)
    try:
        torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except RuntimeError:
        raise InputError(
            WHERE,
            expected="leading dimensions that broadcast",
            got=f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}",
            do="repeat grouped key heads with key.repeat_interleave(query_heads // key_heads, dim=-3)",
        ) from None


def _check_sinks(sinks: Tensor, query: Tensor, key: Tensor) -> None:
    heads = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])[-1:]
    if not isinstance(sinks, Tensor) or sinks.shape != heads or not heads:
        got = f"{list(sinks.shape)}" if isinstance(sinks, Tensor) else type(sinks).__name__
        wanted = f"sinks as a tensor {list(heads)}, one a head" if heads else "a dimension of heads, for sinks"
        raise InputError(WHERE, expected=wanted, got=got if heads else f"query {list(query.shape)}")


def _check_broadcast(mask: Tensor, query: Tensor, key: Tensor) -> None:
    scores = (*torch.broadcast_shapes(query.shape[:-2], key.shape[:-2]), query.shape[-2], key.shape[-2])
    try:
        fits = torch.broadcast_shapes(mask.shape, scores) == scores
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(WHERE, expected=f"a mask that broadcasts to {list(scores)}", got=f"{list(mask.shape)}")
