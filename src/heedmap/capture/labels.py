"""Readable labels: the text a token covers, with nothing invisible in it and no stand-in of any vocabulary.

White space is shown (␣ ⏎ ⇥), other invisible characters by name (‹ZWJ›, ‹U+E000›), a combining mark on its own on a
dotted circle; a token that holds part of a character shows the character and which part, ``나 ⅓``; long labels are
shortened in the middle.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import pairwise

import regex

from heedmap.capture.spans import Placed, Span

LONGEST = 24  # characters, as the reader sees them, before a label is shortened

_SHOWN = {" ": "␣", "\n": "⏎", "\r\n": "⏎", "\r": "␍", "\t": "⇥", "\x7f": "␡"}
_NAMES = {
    "\u00a0": "NBSP", "\u00ad": "SHY", "\u034f": "CGJ", "\u061c": "ALM", "\u200b": "ZWSP", "\u200c": "ZWNJ",
    "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM", "\u2028": "LS", "\u2029": "PS", "\u202a": "LRE",
    "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO", "\u202f": "NNBSP", "\u2060": "WJ",
    "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\u3000": "IDSP", "\ufe0e": "VS15",
    "\ufe0f": "VS16", "\ufeff": "BOM", "\ufffc": "OBJ",
}  # fmt: skip
_FRACTIONS = {
    (1, 2): "½", (1, 3): "⅓", (2, 3): "⅔", (1, 4): "¼", (3, 4): "¾", (1, 5): "⅕", (2, 5): "⅖", (3, 5): "⅗",
    (4, 5): "⅘", (1, 6): "⅙", (5, 6): "⅚", (1, 8): "⅛", (3, 8): "⅜", (5, 8): "⅝", (7, 8): "⅞",
}  # fmt: skip
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

_CLUSTER = regex.compile(r"\X")
_BLANK = regex.compile(r"[\p{White_Space}\p{C}\p{Default_Ignorable_Code_Point}\u2800]")
_MARK = regex.compile(r"\p{M}")


def visible(text: str) -> list[str]:
    """The characters of a text as the reader sees them (grapheme clusters), each made visible."""
    return [_visible_cluster(cluster) for cluster in _CLUSTER.findall(text)]


def shortened(characters: list[str], longest: int = LONGEST) -> str:
    """The characters joined; where there are more than ``longest``, the beginning, … and the end."""
    if len(characters) <= longest:
        return "".join(characters)
    head = (longest - 1) * 2 // 3
    return "".join([*characters[:head], "…", *characters[len(characters) - (longest - 1 - head) :]])


@lru_cache(maxsize=1 << 14)  # a long text says the same again and again
def readable(text: str) -> str:
    """A text as a label."""
    return shortened(visible(text))


def fraction(part: int, parts: int) -> str:
    """``part`` of ``parts``, counted from 1: ⅓, ⅔, ³⁄₃."""
    shown = _FRACTIONS.get((part, parts))
    return shown or f"{str(part).translate(_RAISED)}⁄{str(parts).translate(_LOWERED)}"


def labels(text: str, placed: Placed, surfaces: list[bytes]) -> list[str]:
    """One label per token of ``text``: what its span covers, or what the token says where the span is wrong."""
    holders = _holders(text, placed)
    shown: list[str] = []
    for i, span in enumerate(placed.spans):
        if span is None or placed.from_token[i]:
            shown.append(_say(surfaces[i]))
        elif span[0] in holders or span[1] - 1 in holders:
            shown.append(_cover(text, span, i, holders))
        else:
            shown.append(readable(text[span[0] : span[1]]))
    return shown


def _holders(text: str, placed: Placed) -> dict[int, list[int]]:
    """Character → the tokens that hold part of it, in order, for the ends of tokens that overlap."""
    spanned = [i for i, span in enumerate(placed.spans) if span is not None and not placed.from_token[i]]
    overlapping: list[int] = []
    for before, after in pairwise(spanned):
        one, other = placed.spans[before], placed.spans[after]
        if one is not None and other is not None and other[0] < one[1]:
            overlapping += [i for i in (before, after) if not overlapping or overlapping[-1] < i]
    holders: dict[int, list[int]] = {}
    for i in overlapping:
        span = placed.spans[i]
        if span is not None:
            for at in {*range(*_end(text, span, first=True)), *range(*_end(text, span, first=False))}:
                holders.setdefault(at, []).append(i)
    return holders


def _end(text: str, span: Span, *, first: bool) -> Span:
    """The first or last character of a span as the reader sees it, within the span."""
    start, end = span
    if end - start == 1:
        return span
    clusters = list(_CLUSTER.finditer(text, start, end))
    cluster = clusters[0] if first else clusters[-1]
    return cluster.span()


def _cover(text: str, span: Span, token: int, holders: dict[int, list[int]]) -> str:
    """The label of a token that covers ``span``: characters it holds whole, and those it holds part of."""
    pieces: list[str] = []
    whole_from = start = span[0]
    partial = False  # the last piece ended in a fraction, which must stand apart from what follows
    while start < span[1]:
        sharing = holders.get(start, [token])
        if len(sharing) == 1 or token not in sharing:
            start += 1
            continue
        end = start + 1
        while end < span[1] and holders.get(end) == sharing:
            end += 1
        whole = readable(text[whole_from:start])
        part = f"{readable(text[start:end])} {fraction(sharing.index(token) + 1, len(sharing))}"
        pieces += [" " if partial else "", whole, " " if partial and whole else "", part]
        partial, whole_from = True, end
        start = end
    whole = readable(text[whole_from : span[1]])
    return "".join([*pieces, " " if partial and whole else "", whole])


def _say(surface: bytes) -> str:
    """The label of a token known by what it says only; bytes that are no text are shown as bytes."""
    try:
        said = surface.decode()
    except UnicodeDecodeError:
        return f"‹{surface.hex(' ').upper()}›"
    return readable(said) if said else "‹nothing›"


def _visible_cluster(cluster: str) -> str:
    if cluster in _SHOWN:
        return _SHOWN[cluster]
    if _BLANK.match(cluster):
        return "".join(_named(char) for char in cluster)
    if _MARK.match(cluster):
        return f"\u25cc{cluster}"
    tail = cluster[-1]
    if len(cluster) > 1 and unicodedata.category(tail) == "Cf":  # a joiner with nothing behind it to join
        return f"{_visible_cluster(cluster[:-1])}{_named(tail)}"
    return cluster


def _named(char: str) -> str:
    if char in _SHOWN:
        return _SHOWN[char]
    if ord(char) < 0x20:
        return chr(0x2400 + ord(char))
    if not _BLANK.match(char):
        return char
    return f"‹{_NAMES.get(char) or f'U+{ord(char):04X}'}›"
