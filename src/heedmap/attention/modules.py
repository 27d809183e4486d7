"""Self-attention as a module: X → Q, K, V by W_Q, W_K, W_V, for teaching and for measuring."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedmap.attention.checks import whole
from heedmap.attention.reference import scaled_dot_product_attention
from heedmap.errors import InputError


class SelfAttention(nn.Module):
    """One head: every row of X asks (Q), offers (K) and holds content (V).

        Q = X W_Q, K = X W_K, V = X W_V;   weights = softmax(Q Kᵀ / √d_k);   output = weights · V

    Args:
        d_model: width of a row of X.
        d_k: width of queries and keys.
        d_v: width of values and of the output; `d_k` unless given.
    """

    def __init__(self, d_model: int, d_k: int, d_v: int | None = None) -> None:
        super().__init__()
        d_v = d_k if d_v is None else d_v
        _check_sizes("SelfAttention", d_model=d_model, d_k=d_k, d_v=d_v)
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`x` `[..., length, d_model]` → output `[..., length, d_v]` and weights `[..., length, length]`."""
        _check_rows("SelfAttention", x, self.w_q.weight)
        return scaled_dot_product_attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)


class MultiHeadSelfAttention(nn.Module):
    """`heads` heads side by side, each of width d_model / heads, joined by W_O.

        output = concat(head_1, …, head_h) W_O,   head_i = softmax(Q_i K_iᵀ / √d_k) V_i

    Source: Vaswani et al. 2017, §3.2.2.
    """

    def __init__(self, d_model: int, heads: int, d_k: int | None = None, d_v: int | None = None) -> None:
        super().__init__()
        _check_sizes("MultiHeadSelfAttention", d_model=d_model, heads=heads)
        if d_k is None and d_model % heads:
            raise InputError(
                "MultiHeadSelfAttention",
                expected="d_model as a multiple of heads",
                got=f"{d_model} and {heads}",
                do="give d_k yourself",
            )
        d_k = d_model // heads if d_k is None else d_k
        d_v = d_k if d_v is None else d_v
        _check_sizes("MultiHeadSelfAttention", d_k=d_k, d_v=d_v)
        self.heads = heads
        self.w_q = nn.Linear(d_model, heads * d_k, bias=False)
        self.w_k = nn.Linear(d_model, heads * d_k, bias=False)
        self.w_v = nn.Linear(d_model, heads * d_v, bias=False)
        self.w_o = nn.Linear(heads * d_v, d_model, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`x` `[..., length, d_model]` → output of the same shape and weights `[..., heads, length, length]`."""
        _check_rows("MultiHeadSelfAttention", x, self.w_q.weight)
        query, key, value = (self._split(w(x)) for w in (self.w_q, self.w_k, self.w_v))
        output, weights = scaled_dot_product_attention(query, key, value, mask)
        return self.w_o(output.transpose(-3, -2).flatten(-2)), weights

    def _split(self, rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (self.heads, -1)).transpose(-3, -2)


def _check_sizes(where: str, **sizes: int) -> None:
    for name, size in sizes.items():
        whole(where, name, size, least=1)


def _check_rows(where: str, x: Tensor, weight: Tensor) -> None:
    fits = isinstance(x, Tensor) and x.dim() >= 2 and x.shape[-1] == weight.shape[-1]
    if not fits or (x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type)):
        got = f"{x.dtype} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise InputError(where, expected=f"x [..., length, {weight.shape[-1]}] in {weight.dtype}", got=got)
