"""Marks in a text that name its passages: `[[question]]Who was it?[[/question]]`."""

from __future__ import annotations

import re

from heedmap.errors import InputError

WHERE = "marks"

_MARK = re.compile(r"\[\[(/?)([^\[\]\n/][^\[\]\n]*)\]\]")


def from_marks(text: str) -> tuple[str, dict[str, list[tuple[int, int]]]]:
    """Take marks out of a text: `"[[question]]Who?[[/question]]"` → `"Who?"` and the place of `question`, 0 to 4.

    Passages may hold others; a name that is marked twice has two places. Raises InputError for a mark that is opened
    and not closed, or closed and not open, and where there is none.
    """
    plain: list[str] = []
    length, last = 0, 0
    places: dict[str, list[tuple[int, int]]] = {}
    opened: list[tuple[str, int, int]] = []
    for found in _MARK.finditer(text):
        piece = text[last : found.start()]
        plain.append(piece)
        length += len(piece)
        last = found.end()
        name = found[2].strip()
        if not found[1]:
            opened.append((name, length, found.start()))
            places.setdefault(name, [])
            continue
        if not opened or opened[-1][0] != name:
            raise InputError(
                WHERE,
                expected=f"[[/{opened[-1][0]}]]" if opened else f"[[{name}]] before [[/{name}]]",
                got=f"[[/{name}]] at character {found.start()}",
                do="close each mark by its name, the last opened first",
            )
        places[name].append((opened.pop()[1], length))
    if opened:
        raise InputError(
            WHERE, expected=f"[[/{opened[-1][0]}]]", got=f"none for [[{opened[-1][0]}]] at character {opened[-1][2]}"
        )
    if not places:
        raise InputError(
            WHERE,
            expected="marks around passages of the text",
            got="none",
            do="write [[question]]Who was it?[[/question]]",
        )
    plain.append(text[last:])
    return "".join(plain), places
