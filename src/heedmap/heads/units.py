"""Gold words and a model's tokens, brought together by characters: the units that attention can tell apart.

A token belongs to the words that it shares characters with (white space between words belongs to none). Words that
share a token cannot be told apart by any weight: they are one unit. A word that shares a character with no token has no
unit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Span = tuple[int, int]


@dataclass(frozen=True)
class Units:
    """The units of one text.

    Attributes:
        of_token: unit of each token, int64 `[tokens]`, −1 for a token of no word.
        of_word: unit of each word, int64 `[words]`, −1 for a word without a token.
        words: numbers of the words of each unit, in the order of the text.
    """

    of_token: np.ndarray
    of_word: np.ndarray
    words: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def alone(self) -> np.ndarray:
        """Which words have a unit of their own, bool `[words]`."""
        sizes = np.array([len(words) for words in self.words] or [0])
        return (self.of_word >= 0) & (sizes[np.maximum(self.of_word, 0)] == 1)

    @property
    def shared(self) -> int:
        """Words that share a token with another one."""
        return sum(len(words) for words in self.words if len(words) > 1)

    @property
    def without(self) -> int:
        """Words without a token."""
        return int((self.of_word < 0).sum())


def align(words: Sequence[Span], tokens: Sequence[Span | None]) -> Units:
    """Bring words and tokens together.

    Args:
        words: `(start, end)` of each word in the text, neither starts nor ends running backwards.
        tokens: `(start, end)` of each token in the same text; None for special tokens and those that stand for nothing.
    """
    starts, ends = [start for start, _ in words], [end for _, end in words]
    covered = [
        range(0) if token is None else range(bisect_right(ends, token[0]), bisect_left(starts, token[1]))
        for token in tokens
    ]
    first = list(range(len(words)))  # word → the first word that it is one with
    for own in covered:
        for word in own[1:]:
            first[word] = min(first[word], word - 1)
    for word in range(len(words)):
        first[word] = first[first[word]]
    met = {first[word] for own in covered for word in own}
    number = {word: unit for unit, word in enumerate(sorted(met))}
    of_word = np.array([number.get(root, -1) for root in first], dtype=np.int64)
    of_token = np.array([number[first[own[0]]] if len(own) else -1 for own in covered], dtype=np.int64)
    members: list[list[int]] = [[] for _ in number]
    for word, unit in enumerate(of_word.tolist()):
        if unit >= 0:
            members[unit].append(word)
    return Units(of_token, of_word, tuple(tuple(own) for own in members))


def spans_of(start: Sequence[int], end: Sequence[int], special: Sequence[bool]) -> list[Span | None]:
    """The place of each token in the text, None for special tokens and those that stand for no character of it."""
    return [
        None if mark or first < 0 or last <= first else (first, last)
        for first, last, mark in zip(start, end, special, strict=True)
    ]
