"""Where each token stands in the original string: a tokenizer's offsets, checked, or an alignment where there are none.

A span is ``(start, end)`` in characters of the original string, or None for a token that stands for none of them (the
space that some tokenizers put before a text). Offsets lie in known ways: empty ones, a first character given to two
tokens, a first character lost, accents and zero-width characters skipped. Each is noticed here; what cannot be put
right is marked, so that the label is taken from the token instead.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import regex

Span = tuple[int, int]

_LOOK_AHEAD = 256  # characters searched for the next known token behind text that no token explains
_WIDEST_MEND = 16  # characters that a span may be widened by: a lost first letter, a pile of accents
_IGNORED = regex.compile(r"[\p{White_Space}\p{M}\p{Cf}\p{Cc}]")
_CLUSTER = regex.compile(r"\X")


@dataclass
class Placed:
    """The spans of one text's tokens, and which labels must be taken from the token rather than from the text."""

    spans: list[Span | None]
    from_token: list[bool]


def place(text: str, offsets: list[Span] | None, surfaces: list[bytes], unknown: list[bool]) -> Placed:
    """Spans of the tokens of one text, special tokens that were added left out.

    ``offsets`` are the tokenizer's own (None: it has none), ``surfaces`` the bytes that each token says
    (:func:`heedmap.capture.surfaces.surfaces`), ``unknown`` which tokens stand for text they do not know.
    """
    says = [None if unknown[i] else _whole(surface) for i, surface in enumerate(surfaces)]
    if offsets is None or _useless(offsets):
        spans = align(text, surfaces, unknown)
        return Placed(spans, [span is None for span in spans])
    placed = Placed([(start, end) if start < end else None for start, end in offsets], [False] * len(offsets))
    placed.from_token = [span is None and not unknown[i] for i, span in enumerate(placed.spans)]
    _drop_borrowed_characters(text, placed, says)
    _check_overlaps(text, placed, says)
    _check_gaps(text, placed, says)
    return placed


def _whole(surface: bytes) -> str | None:
    """A token's text where it is whole characters, else None."""
    try:
        return surface.decode()
    except UnicodeDecodeError:
        return None


def _useless(offsets: list[Span]) -> bool:
    """Offsets that run backwards or are all empty explain nothing."""
    backwards = any(after[0] < before[0] for before, after in pairwise(offsets) if any(after))
    return bool(offsets) and (backwards or all(start >= end for start, end in offsets))


def _drop_borrowed_characters(text: str, placed: Placed, says: list[str | None]) -> None:
    """A token that says only white space, but whose offsets name a letter or a space that the next token has too, is
    the space some tokenizers put before a text: it stands for nothing."""
    for i, span in enumerate(placed.spans):
        word = says[i]
        if span is None or not word or not word.isspace():
            continue
        after = placed.spans[i + 1] if i + 1 < len(placed.spans) else None
        repeated = after is not None and after[0] < span[1] and says[i + 1] is not None
        if repeated or not text[span[0] : span[1]].isspace():
            placed.spans[i], placed.from_token[i] = None, True


def _check_overlaps(text: str, placed: Placed, says: list[str | None]) -> None:
    """Two tokens may share one character, as the reader sees it; where they share more, the tokens give the labels."""
    before = -1
    for i, span in enumerate(placed.spans):
        if span is None:
            continue
        earlier = placed.spans[before] if before >= 0 else None
        if earlier is not None and span[0] < earlier[1]:
            shared = text[span[0] : min(earlier[1], span[1])]
            if len(shared) > 1 and not _CLUSTER.fullmatch(shared):
                for which in (before, i):
                    placed.from_token[which] |= says[which] is not None
        before = i


def _check_gaps(text: str, placed: Placed, says: list[str | None]) -> None:
    """Where characters other than white space belong to no token, the neighbours' offsets are widened if the token
    says just that; if it says something else than its own offsets, it gives the label."""
    reached = 0
    before = -1
    for i, span in enumerate([*placed.spans, (len(text), len(text))]):
        if span is None:
            continue
        start = span[0]
        if reached < start and not text[reached:start].isspace():
            if before >= 0:
                _mend(text, placed, says, before, (0, start - reached))
            if i < len(placed.spans):
                _mend(text, placed, says, i, (start - reached, 0))
        reached = max(reached, span[1])
        before = i


def _mend(text: str, placed: Placed, says: list[str | None], i: int, room: tuple[int, int]) -> None:
    """Widen token i's span into the gap beside it, or give up on it, where it does not say what it covers."""
    span, word = placed.spans[i], says[i]
    if span is None or word is None or _same(word, text[span[0] : span[1]]):
        return
    for width in range(1, min(max(room), _WIDEST_MEND) + 1):
        wider = (span[0] - (width if room[0] else 0), span[1] + (width if room[1] else 0))
        if _same(word, text[wider[0] : wider[1]]):
            placed.spans[i] = wider
            return
    placed.from_token[i] = True


def _same(one: str, other: str) -> bool:
    return (
        unicodedata.normalize("NFC", one).casefold().strip() == unicodedata.normalize("NFC", other).casefold().strip()
    )


# --- alignment: for tokenizers without offsets -----------------------------------------------------------------------


def align(text: str, surfaces: list[bytes], unknown: list[bool]) -> list[Span | None]:
    """Spans found by reading the tokens along the text, letter case, accents and white space aside.

    A token that holds part of a character covers that character. Text that no token explains is given to the unknown
    token, or the one strange token, that stands there; where several stand there, to none.
    """
    reader = _Reader(text)
    spans: list[Span | None] = [None] * len(surfaces)
    waiting: list[int] = []  # tokens that did not match where they should, in order
    for group in _whole_characters(surfaces, unknown):
        word = b"".join(surfaces[i] for i in group).decode("utf-8", "replace")
        found = None if unknown[group[0]] else reader.find(word, _LOOK_AHEAD if waiting else 0)
        if found is None:
            waiting += group
            continue
        where, skipped = found
        if len(waiting) == 1 and skipped is not None:
            spans[waiting[0]] = skipped
        waiting = []
        for i, span in zip(group, _split(where, [surfaces[i] for i in group], word), strict=True):
            spans[i] = span
    rest = reader.rest()
    if len(waiting) == 1 and rest is not None:
        spans[waiting[0]] = rest
    return spans


def _whole_characters(surfaces: list[bytes], unknown: list[bool]) -> list[list[int]]:
    """Runs of tokens that together hold whole characters: one token mostly, more where a character is split."""
    groups: list[list[int]] = []
    held: list[int] = []
    said = b""
    for i, surface in enumerate(surfaces):
        if held and (unknown[i] or len(said) > 64):  # never completed: no UTF-8 after all
            groups += [[j] for j in held]
            held, said = [], b""
        held.append(i)
        said += surface
        if unknown[i] or _whole(said) is not None:
            groups.append(held)
            held, said = [], b""
    return groups + [[j] for j in held]


def _split(where: list[Span | None], surfaces: list[bytes], word: str) -> list[Span | None]:
    """The span of each token of a group, from the place of every character of what the group says together."""
    if len(surfaces) == 1:
        known = [span for span in where if span is not None]
        return [(known[0][0], known[-1][1]) if known else None]
    ends: list[int] = []  # the byte at which each character ends
    for char in word:
        ends.append((ends[-1] if ends else 0) + len(char.encode("utf-8", "replace")))
    spans: list[Span | None] = []
    start = 0
    for surface in surfaces:
        first, last = bisect_left(ends, start + 1), bisect_left(ends, start + len(surface))
        known = [span for span in where[first : last + 1] if span is not None]
        spans.append((known[0][0], known[-1][1]) if known and surface else None)
        start += len(surface)
    return spans


class _Reader:
    """A text read from left to right, twice over: as it stands, and folded (no case, accents, spaces, marks)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0  # the character that has not been read yet
        self.folded: list[str] = []
        self.index: list[int] = []  # folded character → where it stands in the text
        for i, char in enumerate(text):
            for letter in _fold(char):
                self.folded.append(letter)
                self.index.append(i)
        self.joined = "".join(self.folded)
        self.next = 0  # the folded character that has not been read yet

    def find(self, word: str, look_ahead: int) -> tuple[list[Span | None], Span | None] | None:
        """The place of each character of ``word``, and the text skipped to get there; None where it is not found."""
        if word and self.text.startswith(word, self.at):
            return self._take(self.at, word, 0, len(word)), None
        bare = word.lstrip()
        start = self.at
        while start < len(self.text) and self.text[start].isspace():
            start += 1
        if bare and self.text.startswith(bare, start):
            return self._take(start, word, len(word) - len(bare), len(bare)), None
        letters = [(letter, i) for i, char in enumerate(word) for letter in _fold(char)]
        if not letters:  # white space or marks that the text does not hold here
            return ([None] * len(word), None) if not look_ahead else None
        sought = "".join(letter for letter, _ in letters)
        found = self.joined.find(sought, self.next, self.next + len(sought) + look_ahead)
        if found < 0:
            return None
        first, last = self.index[found], self.index[found + len(sought) - 1]
        where: list[Span | None] = [None] * len(word)
        for offset, (_, i) in enumerate(letters):
            place = self.index[found + offset]
            earlier = where[i]
            where[i] = (place if earlier is None else earlier[0], place + 1)
        skipped = self._between(self.at, first) if found > self.next else None
        self.next = found + len(sought)
        finished = self.next >= len(self.index) or self.index[self.next] > last
        self.at = last + 1 if finished else last
        return where, skipped

    def rest(self) -> Span | None:
        return self._between(self.at, len(self.text))

    def _take(self, start: int, word: str, skip: int, length: int) -> list[Span | None]:
        self.at = start + length
        self.next = bisect_left(self.index, self.at)
        return [(start + i - skip, start + i - skip + 1) if i >= skip else None for i in range(len(word))]

    def _between(self, start: int, end: int) -> Span | None:
        """A stretch of the text without the white space around it; None where nothing is left."""
        while start < end and self.text[start].isspace():
            start += 1
        while start < end and self.text[end - 1].isspace():
            end -= 1
        return (start, end) if start < end else None


def _fold(char: str) -> str:
    return _IGNORED.sub("", unicodedata.normalize("NFKD", char).casefold())
