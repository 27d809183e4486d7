"""One `generate()`: the rows of all its passes, kept as they came in and measured once, as one matrix a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from heedmap.capture.joining import Kept, Pass, Texts, refusal
from heedmap.capture.known import Generated
from heedmap.capture.layers import SEEN_OR_HEARD
from heedmap.capture.lazy_mask import LazyMask
from heedmap.capture.reading import Reading
from heedmap.capture.text_rows import NOWHERE, Array, TextRows

if TYPE_CHECKING:
    from heedmap.capture.session import Place

_PADDING = -1
_OTHER_TEXTS = ("encoder", *SEEN_OR_HEARD)


class Generation:
    """Follows one `generate()` in memory linear in the number of tokens.

    Each pass adds the query rows and the keys that are new in it. A row belongs to the texts that begin with what had
    been read when it was computed, so the texts that `generate()` returns find theirs: through beams that change
    places, and past drafts that were thrown away.
    """

    def __init__(self, owners: int, with_values: bool) -> None:
        self._owners = owners  # inputs that were given; the texts of each stay together
        self._with_values = with_values
        self._told: Array | None = None  # token ids that generate() is about to read
        self._texts: Array | None = None  # whole texts of the last pass, −1 for padding
        self._here: Pass | None = None
        self._origin = 0  # text position of the first token that generate() knows
        self.prompt_len = 0
        self._forget()

    def _forget(self) -> None:
        self._rows = TextRows()
        self._kept: dict[tuple[str, int], Kept] = {}
        self._passes: list[Pass] = []
        self._real: list[Tensor] = []

    # --- while the model generates -----------------------------------------------------------------------------

    def told(self, ids: Tensor) -> None:
        """`generate()` is about to read these tokens, `[batch, tokens]`: whole texts, or their next part."""
        self._told = ids.detach().to("cpu", torch.int64).numpy().copy()
        self._here = None

    def reads(self, place: Place, query: Tensor) -> bool:
        """Whether a call is of the text that is being generated, rather than of an image or an encoder's text."""
        if self._told is None or place.site.stack.split(".")[0] in _OTHER_TEXTS:
            return False
        return place.cached or place.cross or (query.shape[0], query.shape[2]) == self._told.shape

    def take(self, place: Place, reading: Reading, mask: Any, dropout: float) -> None:
        """Keep one call's query rows and new keys."""
        batch, rows = reading.query.shape[0], reading.query.shape[2]
        if self._here is None:
            self._here = self._begin(batch, rows, reading, mask)
        here = self._here
        if (batch, rows) != (here.batch, here.rows) or not (place.cross or reading.query_offset == here.offset):
            raise refusal(
                f"{batch} × {rows} rows from position {reading.query_offset} in {place.site.name}",
                f"{here.batch} × {here.rows} rows from position {here.offset} in every layer",
            )
        kept = self._kept.get((place.part, place.layer))
        if kept is None:
            kept = Kept(place, reading, mask, dropout, self._with_values)
            self._kept[place.part, place.layer] = kept
        if kept.rows != self._rows.count - batch * rows:
            raise refusal(f"passes without {place.part} {place.layer}", "every layer once in every pass")
        kept.add(reading, mask)

    def _begin(self, batch: int, rows: int, reading: Reading, mask: Any) -> Pass:
        """The first call of a pass tells where its rows stand."""
        told, stop = self._told, reading.query_offset + rows
        assert told is not None
        if told.shape[0] != batch or told.shape[1] == 0 or reading.cross:
            raise refusal(
                f"token ids {list(told.shape)} for {batch} texts of {stop} tokens", "the token ids of all texts"
            )
        if self._passes and reading.query_offset == self._passes[0].offset and told.shape[1] == stop - self._origin:
            self._forget()  # without a cache every pass reads the whole text
        if not self._passes:
            self._origin = stop - told.shape[1]
            self.prompt_len = self.prompt_len or told.shape[1]
        elif told.shape[1] != stop - self._origin:  # a prompt that is read in parts
            if (
                self._texts is None
                or told.shape[1] != rows
                or self._texts.shape[1] + self._origin != reading.query_offset
            ):
                raise refusal(f"{told.shape[1]} token ids for texts of {stop} tokens", "the token ids of all texts")
            told = np.concatenate([self._texts, told], axis=1)
            self.prompt_len = told.shape[1]
        start = reading.query_offset - self._origin
        if start < 0:
            raise refusal(f"{-start} rows more than token ids", "a token id for every row")
        real = mask.real(self._origin, stop) if isinstance(mask, LazyMask) else None
        real = torch.ones(1, stop - self._origin, dtype=torch.bool) if real is None else real.cpu()
        real = real.expand(batch, -1)
        texts = np.where(real.numpy(), told, _PADDING)
        owners = self._owners_of(batch)
        if self._passes and not all(map(self._rows.known, texts[:, :start], owners)):
            raise refusal("a pass that goes on from a text that was not read", "passes that go on from one another")
        self._rows.add(texts, owners, start)
        self._texts = texts
        self._real.append(real[:, start:].reshape(-1))
        self._passes.append(Pass(batch, rows, reading.query_offset))
        return self._passes[-1]

    def _owners_of(self, texts: int) -> list[int]:
        """Which input each of so many texts comes from: the beams and samples of one follow one another."""
        if texts % self._owners:
            raise refusal(f"{texts} texts for {self._owners} inputs", "as many texts for each input")
        return [text * self._owners // texts for text in range(texts)]

    # --- when it is done ---------------------------------------------------------------------------------------

    def join(self, sequences: Tensor, lengths: list[int], measure: Callable[[Kept, Reading, Generated], None]) -> None:
        """Hand every layer to `measure` as one reading of the returned texts, and forget it.

        Args:
            sequences: the texts that `generate()` returned, `[texts, tokens]`.
            lengths: how many tokens of each are the text's own; the last of them has read nothing yet.
            measure: takes the layer, the reading, and the texts.
        """
        if not self._passes or self._texts is None:
            return
        ids = sequences.detach().to("cpu", torch.int64)
        index = self._index(ids.numpy(), lengths)
        if index.shape[1] == 0 or (index[:, 0] == NOWHERE).any():  # Whisper returns less than it reads
            ids = torch.from_numpy(self._texts)
            lengths = [ids.shape[1] + 1] * len(ids)
            index = self._index(self._texts, lengths)
        start = self._passes[0].offset - self._origin
        for row, length in zip(index, lengths, strict=True):
            if (row[: length - 1 - start] == NOWHERE).any():
                raise refusal("a returned text that was not read from end to end", "one text from first to last token")
        rows = torch.from_numpy(index)
        texts = Texts(
            index=rows,
            there=rows >= 0,
            real=torch.cat(self._real)[rows.clamp(min=0)],
            items=[int(row[0]) // self._passes[0].rows for row in index],
            passes=self._passes,
        )
        generated = Generated(ids, self._owners_of(len(ids)), self._origin)
        for place in list(self._kept):
            kept = self._kept.pop(place)
            if kept.rows != self._rows.count:
                raise refusal(f"passes without {place[0]} {place[1]}", "every layer once in every pass")
            measure(kept, kept.joined(texts), generated)

    def _index(self, ids: Array, lengths: list[int]) -> Array:
        start = self._passes[0].offset - self._origin
        index = np.full((len(ids), max(0, max(lengths) - 1 - start)), NOWHERE, dtype=np.int64)
        for text, owner in enumerate(self._owners_of(len(ids))):
            stop = lengths[text] - 1
            if stop > start:
                index[text, : stop - start] = self._find(ids[text], owner, start, stop)
        return index

    def _find(self, tokens: Array, owner: int, start: int, stop: int) -> Array:
        """The rows of one text; where its prompt had padding, as the texts that were read had it."""
        assert self._texts is not None
        found = self._rows.find(tokens, owner, start, stop)
        for pattern in np.unique(self._texts[:, : self.prompt_len] == _PADDING, axis=0):
            if (found != NOWHERE).all():
                break
            marked = tokens.copy()
            marked[: self.prompt_len][pattern] = _PADDING
            found = self._rows.find(marked, owner, start, stop)
        return found
