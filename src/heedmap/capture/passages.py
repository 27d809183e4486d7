"""Named passages of a text: from the words or places that the caller gives to the tokens they cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heedmap.capture.tokens import Tokens
from heedmap.errors import InputError
from heedmap.runs.kinds import PASSAGE_WORDS

WHERE = "spans"

Place = tuple[int, int]
Passage = str | Place | Sequence[Place]
"""Words that stand once in the text, `(start, end)` in characters, or several such places."""


def locate(passages: Mapping[str, Passage], tokens: Tokens) -> dict[str, list[bool]]:
    """The tokens of each passage: those whose first character that is no white space lies in it.

    Places count characters of the text; words are sought in the second text of a pair too. Tokens that stand for no
    characters (special tokens) are in no passage. Passages may overlap.

    Raises:
        InputError: no passages, a place outside the text, words that stand there not once, a passage without tokens, a
            name that tables use for something else.
    """
    if not isinstance(passages, Mapping):
        raise InputError(
            WHERE, expected="named passages, {name: words or (start, end)}", got=f"{type(passages).__name__}"
        )
    if not passages:
        raise InputError(WHERE, expected="at least one named passage", got="none")
    texts = [tokens.text] if tokens.text_pair is None else [tokens.text, tokens.text_pair]
    begins = [
        _first_letter(texts[segment], start, end) if start >= 0 else -1
        for segment, start, end in zip(tokens.segment, tokens.start, tokens.end, strict=True)
    ]
    found: dict[str, list[bool]] = {}
    for name, passage in passages.items():
        if not isinstance(name, str) or not name.strip():
            raise InputError(WHERE, expected="a name for each passage", got=repr(name))
        if name in PASSAGE_WORDS:
            raise InputError(
                WHERE,
                expected="names of passages other than " + ", ".join(PASSAGE_WORDS),
                got=repr(name),
                do="give the passage another name: tables use these for rows and for what is in no passage",
            )
        places = _places(name, passage, texts)
        marks = [
            begin >= 0 and any(of == segment and start <= begin < end for segment, start, end in places)
            for begin, of in zip(begins, tokens.segment, strict=True)
        ]
        if not any(marks):
            cut = tokens.truncated_from is not None
            raise InputError(
                WHERE,
                expected=f"tokens in passage {name!r}",
                got="none" + (f": the text was cut to {len(tokens)} tokens" if cut else ""),
                do="cut the text later, or leave the passage out" if cut else None,
            )
        found[name] = marks
    return found


def stretches(marks: Sequence[bool]) -> list[list[int]]:
    """The positions of a passage's tokens as `[start, stop)` stretches."""
    found: list[list[int]] = []
    for position, mark in enumerate(marks):
        if mark and found and found[-1][1] == position:
            found[-1][1] = position + 1
        elif mark:
            found.append([position, position + 1])
    return found


def _first_letter(text: str, start: int, end: int) -> int:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()) if piece.strip() else start


def _places(name: str, passage: Passage, texts: Sequence[str]) -> list[tuple[int, int, int]]:
    """A passage as (segment, start, end)."""
    if isinstance(passage, str):
        return [_words(name, passage, texts)]
    if not isinstance(passage, Sequence) or not passage:
        raise _unreadable(name, passage)
    pairs: list[object] = [passage] if isinstance(passage[0], int) else list(passage)
    places = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not all(type(end) is int for end in pair):
            raise _unreadable(name, pair)
        start, end = int(pair[0]), int(pair[1])
        if not 0 <= start < end <= len(texts[0]):
            raise InputError(
                WHERE,
                expected=f"places of passage {name!r} within the text's {len(texts[0])} characters",
                got=f"{start} to {end}",
            )
        places.append((0, start, end))
    return places


def _words(name: str, words: str, texts: Sequence[str]) -> tuple[int, int, int]:
    hits = [(segment, text.find(words)) for segment, text in enumerate(texts) if words.strip() and words in text]
    times = sum(text.count(words) for text in texts) if words.strip() else 0
    if times != 1:
        raise InputError(
            WHERE,
            expected=f"the words of passage {name!r} once in the text",
            got=f"{times} times: {words if len(words) <= 40 else words[:39] + '…'!r}",
            do="give its place instead, as [start, end] in characters",
        )
    segment, start = hits[0]
    return segment, start, start + len(words)


def _unreadable(name: str, passage: object) -> InputError:
    return InputError(
        WHERE, expected=f"passage {name!r} as its words, or as [start, end] in characters", got=f"{passage!r}"[:80]
    )
