"""Words of a text, by one rule for every tokenizer: Unicode word boundaries of the original string (UAX #29).

Where that rule cuts every letter apart, in scripts written without spaces (Chinese, Japanese, Thai), a run of one
script is a word; Korean is cut at white space and punctuation. Each punctuation mark is a word of its own. A token
that covers several words makes them one. Never the tokenizer's own ``word_ids()``, which is constant for some.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import regex

from heedmap.capture.spans import Span

_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)
_LETTERS = r"[\p{L}\p{M}\p{N}]"
_RUN_OF_ONE_SCRIPT = regex.compile(
    "|".join([rf"[\p{{scx={script}}}&&{_LETTERS}]{{2,}}" for script in ("Han", "Hiragana", "Katakana")])
    + rf"|[\p{{Line_Break=SA}}&&{_LETTERS}]{{2,}}",
    regex.VERSION1,
)
_NO_WORD = regex.compile(r"[\p{White_Space}\p{C}\p{Default_Ignorable_Code_Point}]*")


def word_spans(text: str) -> list[Span]:
    """The ``(start, end)`` of every word of ``text``, white space and invisible characters left out."""
    cuts = sorted({0, len(text), *(found.start() for found in _BOUNDARY.finditer(text))})
    inside: set[int] = set()
    for run in _RUN_OF_ONE_SCRIPT.finditer(text):
        inside.update(range(run.start() + 1, run.end()))
    cuts = [cut for cut in cuts if cut not in inside]
    return [(start, end) for start, end in pairwise(cuts) if not _NO_WORD.fullmatch(text, start, end)]


def token_words(text: str, spans: Sequence[Span | None], first: int = 0) -> list[int]:
    """The word of each token, numbered from ``first`` in the order of the text; −1 for a token that covers none.

    ``spans`` are the tokens' places in ``text``, in order. A token that covers several words joins them, with every
    other token of theirs, into one.
    """
    words = word_spans(text)
    starts, ends = [start for start, _ in words], [end for _, end in words]
    touched = [
        range(bisect_right(ends, span[0]), bisect_left(starts, span[1])) if span is not None else range(0)
        for span in spans
    ]
    joined = list(range(len(words)))  # word → the first word it is one with
    for covered in touched:
        for word in covered[1:]:
            joined[word] = min(joined[word], word - 1)
    for word in range(len(words)):
        joined[word] = joined[joined[word]]
    met = sorted({joined[covered[0]] for covered in touched if covered})
    number = {word: first + i for i, word in enumerate(met)}
    return [number[joined[covered[0]]] if covered else -1 for covered in touched]
