"""From the arguments of one call of transformers' attention interface to `AttentionInputs`, or a refusal by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedmap.attention import masks
from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.masks.base import Mask
from heedmap.attention.masks.data import FromTensor
from heedmap.capture.known import Known
from heedmap.capture.lazy_mask import LazyMask
from heedmap.capture.original import eager_function, reads_keyword
from heedmap.errors import UnsupportedError

_SPARSE = ("indices", "block_indices")
_HONOURED = frozenset(
    {"dropout", "scaling", "is_causal", "softcap", "s_aux", "sinks", "position_bias", "sliding_window"}
)
_SAYS_NOTHING = frozenset({"training", "output_attentions", "position_ids", "cache_position", "use_cache"})
_PACKED = ("cu_seq_lens_q", "cu_seq_lens_k")
_NEARLY_LOWEST = 0.9
"""A mask value below this share of its dtype's lowest number hides, even after a bias was added to it."""


@dataclass(frozen=True)
class Reading:
    """One call as it came, understood but not yet computed.

    `query`, `key`, `value` are detached, of one dtype and batch size, without a static cache's empty slots.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask | None
    tables: tuple[Tensor, ...]
    """Additive or boolean `[batch, heads, query, key]` tensors that are part of the mask."""
    scale: float | None
    softcap: float | None
    sinks: Tensor | None
    query_offset: int
    key_offset: int
    valid_queries: Tensor | None
    cross: bool

    def inputs(
        self, heads: list[int] | None = None, *, with_value: bool = True, known: Known | None = None
    ) -> AttentionInputs:
        """The call as attention inputs; with `heads`, of those query heads only, each with its own key head.

        `known` are facts about the tokens that the keys stand for.
        """
        query, key, sinks, tables = self.query, self.key, self.sinks, self.tables
        value: Tensor | None = self.value if with_value else None
        if heads is not None and heads != list(range(query.shape[1])):
            group = query.shape[1] // key.shape[1]
            key_heads = [head // group for head in heads]
            query, key = query[:, heads], key[:, key_heads]
            value = None if value is None else value[:, key_heads]
            sinks = None if sinks is None else sinks[heads]
            tables = tuple(table[:, heads] if table.shape[1] > 1 else table for table in tables)
        mask = self.mask
        for table in tables:
            part = _table_mask(table)
            mask = part if mask is None else mask & part
        facts = {}
        if known is not None:
            facts = known.of_keys(key.shape[0], self.key_offset, key.shape[2], cross=self.cross)
        return AttentionInputs(
            query,
            key,
            value,
            scale=self.scale,
            mask=mask,
            softcap=self.softcap,
            sinks=sinks,
            query_offset=self.query_offset,
            key_offset=self.key_offset,
            valid_queries=self.valid_queries,
            cross=self.cross,
            **facts,
        )


def read_call(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    keywords: dict[str, Any],
    *,
    cross: bool,
    implementation: str,
    real_rows: Tensor | None,
) -> Reading:
    """Understand one call.

    Args:
        module: the attention module.
        query, key, value: `[batch, heads, length, dim]`, after rotary embedding and cache.
        attention_mask: a `LazyMask`, a mask tensor that the model or user made, or None.
        keywords: all keywords of the call.
        cross: the keys belong to another text than the queries.
        implementation: the model's own implementation, which decides what an absent mask means.
        real_rows: which query rows are no padding, where the mask does not say.

    Raises:
        UnsupportedError: an argument that changes the formula and is not implemented, by its name.
    """
    check_keywords(module, keywords, implementation)
    query, key, value = (tensor.detach() for tensor in (query, key, value))
    dtype = _dtype(query, key, value)
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    batch = max(query.shape[0], key.shape[0])
    query, key, value = (tensor.expand(batch, -1, -1, -1) for tensor in (query, key, value))
    query_len, key_len = query.shape[2], key.shape[2]
    mask: Mask | None = None
    tables: list[Tensor] = []
    query_offset, key_offset = 0 if cross else key_len - query_len, 0
    valid = real_rows
    if cross and isinstance(attention_mask, LazyMask) and attention_mask.key_len < key_len:
        _check_cut(module, attention_mask, key_len)
    elif isinstance(attention_mask, LazyMask):
        _check_lengths(module, attention_mask, query_len, key_len)
        key_len = attention_mask.live_keys()
        mask = attention_mask.mask(key_len)
        query_offset, key_offset = attention_mask.query_offset, attention_mask.key_offset
        valid = real_rows if cross else attention_mask.real_queries()
    elif isinstance(attention_mask, Tensor):
        tables.append(_four_dimensions(attention_mask))
    elif attention_mask is not None:
        raise _refusal(module, "attention_mask", type(attention_mask).__name__)
    elif query_len > 1 and _is_causal(module, keywords, implementation):
        key_len, query_offset = min(key_len, query_len), 0  # as sdpa does: aligned top left
        mask = masks.causal()
    bias = keywords.get("position_bias")
    if bias is not None and bool(bias.any()):
        tables.append(_four_dimensions(bias))
    scale = keywords.get("scaling")
    return Reading(
        query=query,
        key=key[:, :, :key_len],
        value=value[:, :, :key_len],
        mask=mask,
        tables=tuple(table[..., :key_len] for table in tables),
        scale=None if scale is None else float(scale),
        softcap=None if (softcap := keywords.get("softcap")) is None else float(softcap),
        sinks=_sinks(module, keywords, query),
        query_offset=query_offset,
        key_offset=key_offset,
        valid_queries=valid,
        cross=cross,
    )


def check_keywords(module: nn.Module, keywords: dict[str, Any], implementation: str) -> None:
    """Refuse every argument that would change the formula and that we do not implement.

    What the model's own eager function asks for is part of its formula; what it does not ask for is not.
    """
    given = {name for name, value in keywords.items() if value is not None and value is not False}
    for name in _SPARSE:
        if name in given:
            raise _refusal(module, name, "a sparse choice of keys")
    if "flash" in implementation:
        for name in (*_PACKED, "sliding_window"):
            if name in given:
                raise _refusal(module, name, f"one that only {implementation} reads")
    unknown = sorted(given - _HONOURED - _SAYS_NOTHING - set(_PACKED))
    if unknown:
        eager = eager_function(module)
        for name in unknown:
            if reads_keyword(eager, name):
                raise _refusal(module, name, "one that its formula reads")


def _refusal(module: nn.Module, argument: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        "watch",
        expected="an attention call whose every argument is understood",
        got=f"{argument} ({what}) from {type(module).__name__}",
        do="load this model with attn_implementation='eager' and use output_attentions=True",
    )


def _is_causal(module: nn.Module, keywords: dict[str, Any], implementation: str) -> bool:
    """What no mask means: to eager code nothing is hidden, to the others `is_causal` decides, the keyword first."""
    if implementation == "eager":
        return False
    asked = keywords.get("is_causal")
    return bool(getattr(module, "is_causal", True) if asked is None else asked)


def _check_lengths(module: nn.Module, mask: LazyMask, query_len: int, key_len: int) -> None:
    if (mask.query_len, mask.key_len) != (query_len, key_len):
        raise UnsupportedError(
            "watch",
            expected=f"{query_len} queries and {key_len} keys in the mask of {type(module).__name__}",
            got=f"{mask.query_len} and {mask.key_len}",
            do="load this model with attn_implementation='eager' and use output_attentions=True",
        )


def _check_cut(module: nn.Module, mask: LazyMask, key_len: int) -> None:
    """generate() with `prefill_chunk_size` cuts the encoder's mask where a part of the decoder's prompt ends. What is
    left says nothing of the other keys; a model can go on only where it hides nothing, which it takes for no mask."""
    if not mask.plain():
        raise UnsupportedError(
            "watch",
            expected=f"a mask of all {key_len} keys in the cross-attention of {type(module).__name__}",
            got=f"one of the first {mask.key_len}, to which generate() cut it by prefill_chunk_size",
            do="generate without prefill_chunk_size, which is of use where a decoder reads the long text itself",
        )


def _sinks(module: nn.Module, keywords: dict[str, Any], query: Tensor) -> Tensor | None:
    for name in ("s_aux", "sinks"):
        sinks = keywords.get(name)
        if sinks is None:
            continue
        if sinks.numel() != query.shape[1]:
            raise _refusal(module, name, f"not one number a head but {list(sinks.shape)}")
        return sinks.detach().reshape(-1)
    return None


def _dtype(query: Tensor, key: Tensor, value: Tensor) -> torch.dtype:
    """The dtype that attention runs in: autocast's where that is on, else the values'."""
    device = query.device.type
    single = {tensor.dtype for tensor in (query, key, value)} <= {torch.float32, torch.float16, torch.bfloat16}
    return torch.get_autocast_dtype(device) if single and torch.is_autocast_enabled(device) else value.dtype


def _four_dimensions(table: Tensor) -> Tensor:
    return table.detach().reshape((1,) * (4 - table.dim()) + tuple(table.shape))


def _table_mask(table: Tensor) -> Mask:
    """The mask of a tensor that a model adds to its scores (a float one is never 0/1 polarity here) or selects by."""
    if not table.is_floating_point():
        return FromTensor(table.to(torch.bool), None)
    hidden = table <= torch.finfo(table.dtype).min * _NEARLY_LOWEST
    if not bool(hidden.any()):
        return FromTensor(torch.ones(1, 1, 1, 1, dtype=torch.bool, device=table.device), table)
    bias = table.masked_fill(hidden, 0)
    return FromTensor(~hidden, bias if bool(bias.any()) else None)
