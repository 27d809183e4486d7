"""Kinds of token that statistics and head types ask about, by one rule for models and for runs."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

KINDS = {
    "special": "tokens that the tokenizer adds or that stand for a role: [CLS], [SEP], beginning, end, chat marks",
    "punctuation": "tokens of nothing but punctuation, by Unicode category P",
}

PASSAGE_WORDS = ("all", "first token", "generated", "rest", "target")
"""Words that name rows or what is left over beside a text's passages, so that no passage may have such a name."""


def is_punctuation(surface: str) -> bool:
    """Whether a token's text, white space around it aside, holds nothing but punctuation (Unicode categories P…)."""
    letters = surface.strip()
    return bool(letters) and all(unicodedata.category(letter)[0] == "P" for letter in letters)


def kinds_of(
    special: Sequence[bool], segment: Sequence[int], start: Sequence[int], end: Sequence[int], texts: Sequence[str]
) -> dict[str, list[bool]]:
    """Which tokens are of each kind, one list a kind.

    Args:
        special, segment, start, end: columns of the token table.
        texts: the text of each segment, into which `start` and `end` point.
    """
    places = zip(special, segment, start, end, strict=True)
    marks = [
        not mark and first >= 0 and is_punctuation(texts[which][first:last]) for mark, which, first, last in places
    ]
    return {"special": [bool(mark) for mark in special], "punctuation": marks}
