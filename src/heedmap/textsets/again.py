"""A text of a set again, from its source."""

from __future__ import annotations

import hashlib
from itertools import islice

from heedmap.errors import InputError
from heedmap.sets.reader import TextSet
from heedmap.textsets.sources import Texts

WHERE = "look"


def text_again(found: TextSet, number: int) -> str:
    """The text with this number, read from where the set was made from.

    Raises:
        InputError: the set has no such text that was measured, or its source has changed.
    """
    count = found.meta["texts"] + found.meta["refused"]
    rows = found.table("texts", text=number, columns=["sha256", "reason"]).to_pylist() if 0 <= number < count else []
    row = rows[0] if rows else None
    if row is None or row["reason"] is not None:
        raise InputError(
            WHERE,
            expected=f"the number of a text that {found.path} measured, 0 to {count - 1}",
            got=str(number) if row is None else f"{number}, left out: {row['reason']}",
        )
    record = next(islice(Texts(**found.meta["plan"]["texts"]), number, None), None)
    text = None if record is None else record.text
    if text is None or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != row["sha256"]:
        raise InputError(
            WHERE,
            expected=f"text {number} as {found.path} measured it in {found.meta['plan']['texts']['where']}",
            got="another text, or none",
            do="the source has changed since",
        )
    return text
