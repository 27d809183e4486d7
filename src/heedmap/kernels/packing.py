"""Keys, values and other columns in the order that the compiled products read them: numbers of a panel side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedmap.kernels.batch_item import BatchItem
from heedmap.kernels.extension import extension, openmp_parallel, side_by_side


@dataclass(frozen=True)
class Packed:
    """What queries and weights of one batch item are multiplied by."""

    batch: int
    keys: Tensor
    """`[key_heads, panels, head_dim, panel]`."""
    values: Tensor | None
    """`[key_heads, blocks, key_len, panel]`."""
    shared: Tensor | None
    """Columns of many heads, `[shares, blocks, key_len, panel]`."""


def pack(batch: int, item: BatchItem, shared: Sequence[Tensor], panel: int, *, with_values: bool) -> Packed:
    """Pack an item's keys, its values if asked and summable, and `shared` columns, `[shares, key_len, columns]`."""
    values = None
    if with_values and item.value is not None and item.summable:
        values = in_columns(item.value, panel)
    beside = in_columns(torch.cat([own.to(item.key.dtype) for own in shared], dim=-1), panel) if shared else None
    return Packed(batch, in_rows(item.key, panel), values, beside)


def in_rows(rows: Tensor, panel: int) -> Tensor:
    """`[heads, key_len, dim]` as `[heads, panels, dim, panel]`: rows of a panel side by side."""
    heads, count, dim = rows.shape
    packed = rows.new_empty(heads, -(-count // panel), dim, panel)
    module = extension()
    assert module is not None
    module.pack_rows(
        rows=side_by_side(rows), packed=packed, threads=torch.get_num_threads(), openmp_parallel=openmp_parallel()
    )
    return packed


def in_columns(columns: Tensor, panel: int) -> Tensor:
    """`[heads, key_len, columns]` as `[heads, blocks, key_len, panel]`: columns of a panel side by side."""
    return filled(columns, 2, panel).unflatten(2, (-1, panel)).transpose(1, 2).contiguous()


def filled(table: Tensor, dimension: int, panel: int) -> Tensor:
    """The table with zeros at the end of a dimension, up to whole panels; itself where nothing is missing."""
    room = -table.shape[dimension] % panel
    return nn.functional.pad(table, (*(0, 0) * (table.dim() - 1 - dimension), 0, room)) if room else table
