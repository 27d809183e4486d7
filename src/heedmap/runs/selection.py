"""Which text positions a caller means: an integer, a slice, a range, an array of positions or of booleans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heedmap.errors import InputError
from heedmap.runs.schema import short

Positions = int | slice | range | Sequence[int] | np.ndarray[Any, Any] | None


def rows_of(positions: Positions, offset: int, length: int, *, where: str, name: str) -> slice | np.ndarray[Any, Any]:
    """The rows, counted from 0, of the text positions asked for, as an index into an array of `length` rows.

    Positions run from `offset` to `offset + length`; negative ones count from the end. None means all. A slice is
    clipped as Python's are; any other position that does not exist is an error.

    Raises:
        InputError: a position outside, or something that is no selection of positions.
    """
    stop = offset + length
    if positions is None:
        return slice(0, length)
    if isinstance(positions, slice):
        return _from_slice(positions, offset, length, where, name)
    if isinstance(positions, bool):
        raise InputError(where, expected=f"{name} as positions", got=repr(positions))
    asked = np.atleast_1d(np.asarray(positions))
    if asked.dtype == bool:
        if asked.shape != (length,):
            raise InputError(where, expected=f"one boolean for each of {length} {name}", got=f"{list(asked.shape)}")
        return np.flatnonzero(asked)
    if asked.size == 0:
        asked = asked.astype(np.int64)
    if asked.ndim != 1 or not np.issubdtype(asked.dtype, np.integer):
        raise InputError(
            where, expected=f"{name} as an integer, a slice, a range or a list of integers", got=short(positions)
        )
    asked = asked.astype(np.int64)
    asked = np.where(asked < 0, asked + stop, asked)
    outside = (asked < offset) | (asked >= stop)
    if outside.any():
        wrong = int(np.atleast_1d(np.asarray(positions))[np.flatnonzero(outside)[0]])
        raise InputError(where, expected=f"{name} from {offset} to {stop - 1}", got=f"{wrong}")
    return asked - offset


def _from_slice(positions: slice, offset: int, length: int, where: str, name: str) -> slice | np.ndarray[Any, Any]:
    ends = (positions.start, positions.stop, positions.step)
    if not all(end is None or isinstance(end, int | np.integer) for end in ends) or positions.step == 0:
        raise InputError(where, expected=f"{name} as a slice of integers", got=short(positions))
    chosen = range(*positions.indices(offset + length))
    if chosen.step == 1:
        start = max(chosen.start, offset)
        return slice(start - offset, max(start, chosen.stop) - offset)
    rows = np.array(chosen, dtype=np.int64) - offset
    return rows[rows >= 0]


def ranges_of(numbers: Sequence[int]) -> str:
    """`0-5, 8`: ascending numbers in short."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{start}" if start == stop else f"{start}-{stop}" for start, stop in spans)
