"""Which query row read which token of which text: the rows of many passes, found by the text up to them."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
NOWHERE = -1


class TextRows:
    """Numbers the query rows that passes add, and finds them again by text.

    A row belongs to a text by all tokens up to its own. So the rows of a text that `generate()` returned are found
    whatever happened on the way: beams that changed places, or drafts that were thrown away, whose rows belong to no
    text that was returned. Texts of different owners (prompts, images, texts to translate) are told apart although
    they read the same. Memory is a few dozen bytes a row.
    """

    def __init__(self) -> None:
        self._number: dict[bytes, int] = {}
        self.count = 0

    def add(self, texts: Array, owners: list[int], start: int) -> None:
        """Number the rows of tokens `start` and on, text by text; `texts` is int64 `[batch, tokens]` from token 0."""
        for text, owner in zip(texts, owners, strict=True):
            digest = _digest(text[:start], owner)
            for token in text[start:]:
                digest.update(token.tobytes())
                self._number[digest.digest()] = self.count
                self.count += 1

    def known(self, text: Array, owner: int) -> bool:
        """Whether the last token of a text has a row."""
        return _digest(text, owner).digest() in self._number

    def find(self, text: Array, owner: int, start: int, stop: int) -> Array:
        """The numbers of the rows of tokens `start` to `stop` of a text `[tokens]`; −1 for one that was never read."""
        digest = _digest(text[:start], owner)
        found = np.full(stop - start, NOWHERE, dtype=np.int64)
        for place, token in enumerate(text[start:stop]):
            digest.update(token.tobytes())
            found[place] = self._number.get(digest.digest(), NOWHERE)
        return found


def _digest(text: Array, owner: int) -> blake2b:
    return blake2b(np.ascontiguousarray(text).tobytes(), digest_size=16, salt=owner.to_bytes(16, "little"))
