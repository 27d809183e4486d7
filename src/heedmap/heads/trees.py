"""Gold trees from CoNLL-U: sentences with the place of every word in the text that a model reads.

Words are the lines with whole numbers. A multiword token (`3-4 don't`) carries the surface form of its words: they get
their own parts of it where their forms make it up (`do`, `n't`), else all of them get the whole (`zum` of zu, dem).
Empty nodes (`8.1`) are no words; what coreference says on them is kept beside the words. The text is the sentence's
`# text`; where that is missing or says something else than the words do, it is put together from them, with
`SpaceAfter=No` and `SpacesAfter`.

Source: universaldependencies.org/format.html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from conllu import TokenList, parse_incr
from conllu.exceptions import ParseException

from heedmap.errors import InputError, StorageError

ROOT = -1
"""The head of a word that has none in its sentence, `root`."""
_ESCAPES = {"s": " ", "t": "\t", "n": "\n", "r": "\r", "p": "|", "\\": "\\"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")


@dataclass(frozen=True)
class Word:
    """One word: its form, its place `[start, end)` in the sentence's text, the number of its head among the words
    (`ROOT` for the root, None where the file gives no head), its relation to it, its part of speech."""

    form: str
    start: int
    end: int
    head: int | None
    relation: str
    pos: str
    misc: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Sentence:
    """One sentence of a file; `number` counts from 0 in the file, `name` is its `sent_id` or number.

    `document` names the document that begins here, `paragraph` says whether a paragraph does; `rebuilt`, whether the
    text was put together from the words; `entity` is the `# global.Entity` of a document that begins here. `empty` has
    the empty nodes: how many words stand before each, and its `Entity`.
    """

    number: int
    name: str
    text: str
    words: tuple[Word, ...]
    document: str | None = None
    paragraph: bool = False
    rebuilt: bool = False
    entity: str | None = None
    empty: tuple[tuple[int, str], ...] = ()

    @property
    def has_tree(self) -> bool:
        """Whether any word has a head."""
        return any(word.head is not None for word in self.words)


def read_sentences(path: str | os.PathLike[str], limit: int | None = None) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, one after another, the first `limit` of them.

    Raises:
        InputError: no CoNLL-U, no UTF-8, no sentence, a word whose head is none of its sentence, or heads that run in a
            circle.
        StorageError: a file that cannot be read.
    """
    path = Path(path)
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            parsed = parse_incr(file, field_parsers={"feats": _raw, "deps": _raw, "misc": _misc})
            for tokens in parsed:
                if limit is not None and number >= limit:
                    return
                yield _sentence(tokens, number, path)
                number += 1
    except ParseException as problem:
        raise _refused(path, number, str(problem)) from problem
    except UnicodeDecodeError as problem:
        raise InputError(
            "conllu", expected=f"text in UTF-8 in {path}", got=f"other bytes at {problem.start:,}",
            do="give a CoNLL-U file, such as a treebank of Universal Dependencies",
        ) from problem  # fmt: skip
    except OSError as problem:
        raise StorageError(
            "conllu", expected="a CoNLL-U file", got=f"{problem.strerror or problem} ({path})"
        ) from problem
    if number == 0:
        raise InputError("conllu", expected=f"sentences in {path}", got="an empty file", do="give a CoNLL-U file")


def _refused(path: Path, number: int, got: str) -> InputError:
    return InputError(
        "conllu",
        expected=f"CoNLL-U (ten columns parted by tabs, heads that make a tree) in {path}",
        got=f"in sentence {number + 1}: {got.rstrip('.')}",
        do="give a CoNLL-U file, such as a treebank of Universal Dependencies",
    )


def _raw(line: list[str], index: int) -> str:
    return line[index]


def _misc(line: list[str], index: int) -> dict[str, str]:
    pairs = (part.partition("=") for part in line[index].split("|") if line[index] != "_")
    return {name: value for name, equals, value in pairs if equals}


def _sentence(tokens: TokenList, number: int, path: Path) -> Sentence:
    for token in tokens:
        if not {"id", "form", "head", "deprel", "misc"} <= set(token) or token["id"] is None:
            raise _refused(path, number, f"{len(token)} columns or no ID in a line")
    plain = [token for token in tokens if isinstance(token["id"], int)]
    if not plain:
        raise _refused(path, number, "no word")
    if [token["id"] for token in plain] != list(range(1, len(plain) + 1)):
        raise _refused(path, number, "words that are not numbered 1, 2, 3 …")
    surfaces = _surfaces(tokens)
    stated = tokens.metadata.get("text")
    places = None if stated is None else _find(stated, [surface.form for surface in surfaces])
    text, rebuilt = stated or "", places is None
    if places is None:
        text, places = _put_together(surfaces)
    spans: list[tuple[int, int]] = []
    for surface, (start, _) in zip(surfaces, places, strict=True):
        spans += [(start + first, start + last) for first, last in surface.parts]
    words = [_word(token, span, len(plain), number, path) for token, span in zip(plain, spans, strict=True)]
    _check_tree(words, number, path)
    named, document = tokens.metadata.get("sent_id"), _mark(tokens, "newdoc")
    return Sentence(
        number,
        str(named or number),
        text,
        tuple(words),
        document if document is not None else None,
        _mark(tokens, "newpar") is not None,
        rebuilt,
        tokens.metadata.get("global.Entity"),
        _empty(tokens),
    )


def _check_tree(words: Sequence[Word], number: int, path: Path) -> None:
    """Refuse words that govern one another in a circle."""
    good: set[int | None] = {None, ROOT}
    for first in range(len(words)):
        way: dict[int | None, None] = {}
        at: int | None = first
        while at not in good:
            if at is None or at in way:
                raise _refused(path, number, f"words that govern one another in a circle, from word {first + 1} on")
            way[at] = None
            at = words[at].head
        good.update(way)


def _empty(tokens: TokenList) -> tuple[tuple[int, str], ...]:
    """The empty nodes: how many words stand before each, and its `Entity`."""
    found, before = [], 0
    for token in tokens:
        if isinstance(token["id"], int):
            before = token["id"]
        elif token["id"][1] == ".":
            found.append((before, (token["misc"] or {}).get("Entity", "")))
    return tuple(found)


def _mark(tokens: TokenList, kind: str) -> str | None:
    """`newdoc id = x` → "x", a bare `newdoc` → "", nothing → None."""
    for name in (f"{kind} id", f"{kind}_id"):
        if name in tokens.metadata:
            return str(tokens.metadata[name] or "")
    return "" if kind in tokens.metadata else None


def _word(token: Any, span: tuple[int, int], count: int, number: int, path: Path) -> Word:
    head = token["head"]
    if head is not None and not 0 <= head <= count:
        raise _refused(path, number, f"head {head} in a sentence of {count} words")
    if head == token["id"]:
        raise _refused(path, number, f"word {head} as its own head")
    relation = token["deprel"] if token["deprel"] not in (None, "_") else ""
    return Word(
        token["form"], *span, None if head is None else head - 1, relation, token.get("upos") or "", token["misc"]
    )


@dataclass(frozen=True)
class _Surface:
    """What stands in the text for one word or for the words of a range: form, place of each word in it, space after."""

    form: str
    parts: list[tuple[int, int]]
    space: str


def _surfaces(tokens: TokenList) -> list[_Surface]:
    surfaces: list[_Surface] = []
    until = 0  # the last word of the range that is being read
    for index, token in enumerate(tokens):
        number = token["id"]
        if isinstance(number, tuple) and number[1] == "-":
            forms = [other["form"] for other in tokens[index + 1 :]
                     if isinstance(other["id"], int) and number[0] <= other["id"] <= number[2]]  # fmt: skip
            until = number[2]
            if forms:
                surfaces.append(_Surface(token["form"], _parts(token["form"], forms), _space(token["misc"])))
        elif isinstance(number, int) and number > until:
            form = token["form"]
            surfaces.append(_Surface(form, [(0, len(form))], _space(token["misc"])))
    return surfaces


def _parts(surface: str, forms: list[str]) -> list[tuple[int, int]]:
    """The place of each word within the surface form of a range; the whole of it where they do not make it up."""
    if "".join(forms).casefold() != surface.casefold() or len("".join(forms)) != len(surface):
        return [(0, len(surface))] * len(forms)
    ends = [0]
    for form in forms:
        ends.append(ends[-1] + len(form))
    return list(pairwise(ends))


def _space(misc: Mapping[str, str]) -> str:
    if "SpacesAfter" in misc:
        return _ESCAPE.sub(_unescape, misc["SpacesAfter"])
    return "" if misc.get("SpaceAfter") == "No" else " "


def _unescape(match: re.Match[str]) -> str:
    what = match[1]
    return chr(int(what[1:], 16)) if len(what) == 5 else _ESCAPES.get(what, what)


def _find(text: str, forms: list[str]) -> list[tuple[int, int]] | None:
    """The places of forms that stand one after another in the text, with nothing but white space between; else None."""
    places: list[tuple[int, int]] = []
    at = 0
    for form in forms:
        while not text.startswith(form, at):
            if at >= len(text) or not text[at].isspace():
                return None
            at += 1
        places.append((at, at + len(form)))
        at += len(form)
    return None if text[at:].strip() else places


def _put_together(surfaces: list[_Surface]) -> tuple[str, list[tuple[int, int]]]:
    text, places = "", []
    for surface in surfaces:
        places.append((len(text), len(text) + len(surface.form)))
        text += surface.form + surface.space
    return text.rstrip(), places
