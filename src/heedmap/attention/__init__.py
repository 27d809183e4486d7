"""The mathematics: attention inputs, masks, the textbook form and the teaching modules."""

from __future__ import annotations

from heedmap.attention import masks
from heedmap.attention.inputs import AttentionInputs
from heedmap.attention.modules import MultiHeadSelfAttention, SelfAttention
from heedmap.attention.reference import scaled_dot_product_attention

__all__ = ["AttentionInputs", "MultiHeadSelfAttention", "SelfAttention", "masks", "scaled_dot_product_attention"]
