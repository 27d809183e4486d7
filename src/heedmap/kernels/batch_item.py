"""Keys and values of the batch item at hand, in the dtype that is computed in."""

from __future__ import annotations

import torch
from torch import Tensor

from heedmap.attention.inputs import AttentionInputs


class BatchItem:
    """Queries, keys and values of one batch item at a time; `enter` goes to another.

    Values that are NaN or infinite are 0 here and marked in `spoiled_values`: 0 · NaN would reach every row. Infinity
    in a query or key is NaN here: a score of −∞ would read as a hidden pair, and a softcap make a number of +∞.
    """

    def __init__(self, inputs: AttentionInputs) -> None:
        self._inputs = inputs
        self._batch = -1
        self.key: Tensor = inputs.key
        """`[key_heads, key_len, head_dim]`."""
        self.value: Tensor | None = None
        """`[key_heads, key_len, value_dim]`."""
        self.spoiled_values: Tensor | None = None
        """Bool like `value`, or None where all are finite."""
        self.summable = True
        """Whether values may be summed over all keys before they are divided; see `summable`."""

    def enter(self, batch: int) -> bool:
        """Take the batch item `batch`, unless it is at hand already; whether it was not."""
        if batch == self._batch:
            return False
        self._batch = batch
        inputs, dtype = self._inputs, self._inputs.compute_dtype
        self.key = _numbers(inputs.key[batch].to(dtype))
        if inputs.value is not None:
            value = inputs.value[batch].to(dtype)
            self.summable = summable(value, dtype)
            self.spoiled_values = None if self.summable or all_finite(value) else ~torch.isfinite(value)
            self.value = value if self.spoiled_values is None else value.masked_fill(self.spoiled_values, 0)
        return True

    def query(self, heads: slice, rows: slice) -> Tensor:
        """Queries of a strip times the scale, `[heads, rows, head_dim]`; of all at once they would be a table more."""
        asked = self._inputs.query[self._batch, heads, rows].to(self._inputs.compute_dtype)
        return _numbers(asked) * self._inputs.scale


def _numbers(table: Tensor) -> Tensor:
    return table if all_finite(table) else table.masked_fill(~torch.isfinite(table), torch.nan)


def all_finite(table: Tensor) -> bool:
    """Whether there is no NaN and no infinity; their sum tells, unless finite numbers overflow in it."""
    return bool(torch.isfinite(table.sum())) or bool(torch.isfinite(table).all())


def summable(value: Tensor, dtype: torch.dtype) -> bool:
    """Whether as many values as there are keys, `[…, key_len, value_dim]`, have a finite sum in `dtype`, whatever they
    are: then weights may be divided by their sum after the product instead of before."""
    low, high = (float(bound) for bound in value.aminmax())
    return max(-low, high) * value.shape[-2] < torch.finfo(dtype).max
