"""What one layer was given by the passes of a `generate()`, and the one reading of whole texts that it makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heedmap.attention import masks
from heedmap.attention.masks.base import Mask
from heedmap.attention.masks.structured import Everything
from heedmap.capture.joined_mask import OfItems, Stretches
from heedmap.capture.lazy_mask import LazyMask
from heedmap.capture.reading import Reading
from heedmap.errors import UnsupportedError

if TYPE_CHECKING:
    from heedmap.capture.session import Place


@dataclass(frozen=True)
class Pass:
    """One forward pass over the next tokens of `batch` texts: `rows` each, from text position `offset` on."""

    batch: int
    rows: int
    offset: int


@dataclass(frozen=True)
class Texts:
    """Which kept row read which token of which text.

    Attributes:
        index: int64 `[texts, rows]`, −1 after a text's end.
        there: bool, where there is a row.
        real: bool, where that row is no padding.
        items: the batch item of the first pass that each text goes on from.
        passes: all passes, in the order of the kept rows.
    """

    index: Tensor
    there: Tensor
    real: Tensor
    items: list[int]
    passes: list[Pass]

    @property
    def offset(self) -> int:
        """Text position of the first row."""
        return self.passes[0].offset


class Kept:
    """One layer's share: query rows and new keys, flat, `[rows of all texts, heads, dim]`, pass after pass."""

    def __init__(self, place: Place, first: Reading, mask: Any, dropout: float, with_values: bool) -> None:
        self.place = place
        self.dropout = dropout
        self.rows = 0
        self._with_values = with_values
        at = first.key.shape[2] if place.cross else first.query_offset - first.key_offset
        # keys from before the first row: another text's, or those of a cache that the user gave
        key, value = (tensor[:, :, :at].clone() for tensor in (first.key, first.value))
        nothing = first.query[:, :, :0].clone()  # a view would hold on to all rows
        self._first = replace(first, query=nothing, key=key, value=value)
        self._real_first = mask.real(first.key_offset, first.key_offset + at) if isinstance(mask, LazyMask) else None
        self._queries: list[Tensor] = []
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._tables: list[Tensor | None] = []
        self._stretches = Stretches()

    def add(self, reading: Reading, mask: Any) -> None:
        """Keep the rows and new keys of one pass: copies, since a cache goes on changing."""
        rows = reading.query.shape[2]
        self.rows += reading.query.shape[0] * rows
        self._queries.append(_flat(reading.query))
        self._tables.append(_one_table(reading.tables))
        if self.place.cross:
            if _hides(reading.mask) != _hides(self._first.mask):
                raise refusal(
                    "a mask of the encoder's text in some passes and none in others, as prefill_chunk_size makes them",
                    "the same keys in every pass",
                )
            return
        if reading.tables and reading.key_offset != self._first.key_offset:
            raise refusal("a mask tensor over a cache that drops keys", "masks that say what they are")
        at = reading.query_offset - reading.key_offset
        if reading.key.shape[2] < at + rows:
            raise refusal(f"{reading.key.shape[2]} keys for rows that end at {at + rows}", "a key for every row")
        self._keys.append(_flat(reading.key[:, :, at : at + rows]))
        if self._with_values:
            self._values.append(_flat(reading.value[:, :, at : at + rows]))
        if isinstance(mask, LazyMask):
            self._stretches.add(mask, reading.key.shape[2])

    def joined(self, texts: Texts) -> Reading:
        """The layer's reading of the texts, as if each had been read at once."""
        first, device, items = self._first, self._first.key.device, texts.items
        index = texts.index.clamp(min=0).to(device)
        query, valid = _of_texts(self._queries, index), texts.there & texts.real
        key, value = first.key[items], first.value[items]
        mask = first.mask
        if self.place.cross:
            if mask is not None and items != list(range(first.key.shape[0])):
                mask = OfItems(mask, tuple(items), first.key.shape[0])
        else:
            key = torch.cat([key, _of_texts(self._keys, index)], dim=2)
            if self._with_values:
                value = torch.cat([value, _of_texts(self._values, index)], dim=2)
            mask = self._mask(key.shape[2], texts, valid | ~texts.there)
        table = self._table(texts, key.shape[2])
        return replace(
            first,
            query=query,
            key=key,
            value=value if self._with_values else key,
            mask=mask,
            tables=() if table is None else (table,),
            query_offset=texts.offset,
            valid_queries=None if bool(valid.all()) else valid.to(device),
        )

    def _mask(self, key_len: int, texts: Texts, real: Tensor) -> Mask | None:
        start, earlier = self._first.key_offset, key_len - real.shape[1]
        mask = self._stretches.mask(start, start + key_len, texts.items)
        before = torch.ones(real.shape[0], earlier, dtype=torch.bool)
        if self._real_first is not None and earlier:
            before = self._real_first.expand(self._first.key.shape[0], -1)[texts.items].cpu()
        keys = torch.cat([before, real], dim=1)
        if bool(keys.all()):
            return mask
        padding = masks.padding(keys.to(self._first.key.device))
        return padding if mask is None else mask & padding

    def _table(self, texts: Texts, key_len: int) -> Tensor | None:
        """What the passes' mask tensors and position biases say of the whole text; keys to come are hidden."""
        some = next((table for table in self._tables if table is not None), None)
        if some is None:
            return None
        alike = all(table is None or table.shape[0] == 1 for table in self._tables)
        longest = int(texts.there.sum(1).argmax())
        whose = [longest] if alike else range(len(texts.index))
        heads = max(1 if table is None else table.shape[1] for table in self._tables)
        rows = texts.index.shape[1]
        whole = torch.full((len(whose), heads, rows, key_len), torch.finfo(some.dtype).min, dtype=some.dtype,
                           device=some.device)  # fmt: skip
        starts = [0, *accumulate(one.batch * one.rows for one in texts.passes)]
        for text, number in enumerate(whose):
            for row, at in enumerate(texts.index[number].tolist()):
                if at < 0:
                    continue
                which = next(place for place in range(len(texts.passes)) if at < starts[place + 1])
                item, within = divmod(at - starts[which], texts.passes[which].rows)
                last = self._first.key.shape[2] if self.place.cross else texts.offset + row + 1 - self._first.key_offset
                table = self._tables[which]
                if table is None:
                    whole[text, :, row, :last] = 0
                    continue
                line = table[min(item, table.shape[0] - 1), :, min(within, table.shape[2] - 1)]
                whole[text, :, row, : line.shape[-1]] = line
        return whole


def refusal(got: str, expected: str) -> UnsupportedError:
    """Why the passes of a `generate()` cannot be joined, and the way out."""
    return UnsupportedError(
        "watch",
        expected=f"{expected} in generate()",
        got=got,
        do="watch with passes='apart', which keeps each forward pass by itself",
    )


def _hides(mask: Mask | None) -> bool:
    return mask is not None and not isinstance(mask, Everything)


def _flat(tensor: Tensor) -> Tensor:
    """`[batch, heads, rows, dim]` → `[batch · rows, heads, dim]`, a copy."""
    return tensor.transpose(1, 2).flatten(0, 1).clone(memory_format=torch.contiguous_format)


def _of_texts(parts: list[Tensor], index: Tensor) -> Tensor:
    """Flat rows → `[texts, heads, rows, dim]`."""
    return torch.cat(parts)[index].transpose(1, 2)


def _one_table(tables: tuple[Tensor, ...]) -> Tensor | None:
    """Mask tensors of one call as one additive tensor."""
    if not tables:
        return None
    dtype = next((table.dtype for table in tables if table.is_floating_point()), torch.float32)
    lowest = torch.finfo(dtype).min
    total: Tensor | None = None
    for table in tables:
        added = table.to(dtype)
        if not table.is_floating_point():
            added = torch.zeros(table.shape, dtype=dtype, device=table.device).masked_fill(table == 0, lowest)
        total = added if total is None else (total + added).clamp(min=lowest)
    return total
