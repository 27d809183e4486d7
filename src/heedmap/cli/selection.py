"""Layers and heads as written on the command line: ``0-5,8`` and ``0-3``, ``5.11``, ``5.0-3``."""

from __future__ import annotations

import re

from heedmap.errors import InputError

_LARGEST = 9_999
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def parse_layers(text: str, where: str = "--layers") -> list[int]:
    """``"0-5,8"`` → ``[0, 1, 2, 3, 4, 5, 8]``: numbers and ranges, both ends counted. Raises ``InputError``."""
    return sorted({number for piece in _pieces(text, where, "0-5,8") for number in _range(piece, where, "0-5,8")})


def parse_heads(text: str, where: str = "--heads") -> list[int | str]:
    """Heads of every layer as numbers, heads of one layer as ``"layer.head"``: ``"0-3"``, ``"5.11"``, ``"5.0-3,2.7"``.

    Raises ``InputError``.
    """
    plain: set[int] = set()
    exact: set[tuple[int, int]] = set()
    example = "0-3 (in every layer) or 5.11 (head 11 of layer 5)"
    for piece in _pieces(text, where, example):
        layer, dot, heads = piece.rpartition(".")
        if not dot:
            plain.update(_range(heads, where, example))
        elif re.fullmatch(r"\d{1,4}", layer):
            exact.update((int(layer), head) for head in _range(heads, where, example))
        else:
            raise _refused(piece, where, example)
    return [*sorted(plain), *(f"{layer}.{head}" for layer, head in sorted(exact))]


def parse_names(text: str, where: str = "--statistics") -> str | list[str]:
    """``"entropy,received"`` → ``["entropy", "received"]``; ``"default"`` stays as it is. Raises ``InputError``."""
    names = _pieces(text, where, "default or entropy,received")
    return "default" if names == ["default"] else list(dict.fromkeys(names))


def _pieces(text: str, where: str, example: str) -> list[str]:
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(pieces):
        raise InputError(where, expected=f"something like {example}", got=repr(text) if text.strip() else "nothing")
    return pieces


def _range(piece: str, where: str, example: str) -> range:
    match = _RANGE.fullmatch(piece)
    if match is None:
        raise _refused(piece, where, example)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise InputError(where, expected="ranges that run upwards", got=repr(piece), do=f"write {last}-{first}")
    if last > _LARGEST:
        raise InputError(where, expected=f"numbers up to {_LARGEST}", got=repr(piece))
    return range(first, last + 1)


def _refused(piece: str, where: str, example: str) -> InputError:
    return InputError(
        where, expected=f"something like {example}", got=repr(piece), do="layers and heads are counted from 0"
    )
