"""The ``--spans`` and ``--marked`` of ``heedmap look``: passages of the text with their names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedmap.cli.source import Source, slug
from heedmap.errors import InputError

WHERE = "--spans"


def read_passages(source: Source, file: str | None, *, marked: bool) -> tuple[Source, dict[str, Any] | None]:
    """The text without its marks, and the passages that a file or the marks name; None where nobody asks for any.

    Raises ``InputError`` for both at once, for a file that is no JSON object, and for a passage that it names twice.
    """
    if file is not None and marked:
        raise InputError(WHERE, expected="--spans or --marked, one of them", got="both")
    if marked:
        from heedmap.capture.marks import from_marks

        text, places = from_marks(source.text)
        name = slug(text) if source.name == slug(source.text) else source.name
        return replace(source, text=text, name=name), dict(places)
    return source, None if file is None else _read(Path(file))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except OSError as problem:
        raise InputError(
            WHERE, expected="a JSON file", got=f"{path}: {problem.strerror or problem}", do="check the name"
        ) from problem
    except ValueError as problem:
        raise InputError(WHERE, expected=f"JSON in {path}", got=str(problem)) from problem
    if not isinstance(content, dict) or not content:
        raise InputError(
            WHERE,
            expected='an object of passages, {"question": "Who was it?", "passage 1": [0, 120]}',
            got=type(content).__name__ if not isinstance(content, dict) else "an empty one",
        )
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a name that stands twice JSON alone keeps the last and says nothing."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(
            WHERE,
            expected="each passage once",
            got=f"{next(name for name in content if names.count(name) > 1)!r} twice",
            do="give several places to one name: [[0, 120], [140, 260]]",
        )
    return content
