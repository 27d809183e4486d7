"""Retrieval heads: those that look at a token of the needle while the model copies it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

BAR = 0.1
"""Mean score from which Wu et al. call a head a retrieval head."""
ANSWERED = 0.5
"""Share of the answer's words from which a question counts as answered."""
_WORD = re.compile(r"\w+(?:[’'.]\w+)*")


@dataclass(frozen=True)
class Trial:
    """One question to one haystack.

    Attributes:
        needle: number of the needle.
        length: tokens that were asked for, prompt and answer together.
        tokens: tokens of the prompt.
        asked: the depth that was asked for, from 0 (the beginning) to 1 (the end).
        depth: where the needle came to stand, behind a sentence.
        start, stop: text positions of the needle's tokens.
        answer: what the model said.
        recall: share of the wanted answer's words in it.
        scores: of each head, float64 `[heads]`.
    """

    needle: int
    length: int
    tokens: int
    asked: float
    depth: float
    start: int
    stop: int
    answer: str
    recall: float
    scores: np.ndarray

    @property
    def answered(self) -> bool:
        return self.recall > ANSWERED


def retrieval_scores(needle: np.ndarray, start: int, generated: np.ndarray, top: np.ndarray) -> np.ndarray:
    """How much of the needle each head copied.

        score = |{j in the needle : some step produced token x_j while the head's largest weight lay on j}| / |needle|

    Args:
        needle: token ids of the needle, `[needle tokens]`.
        start: text position of its first token.
        generated: token ids that the model produced, `[steps]`.
        top: the key with the largest weight in the row that produced each of them, text positions `[steps, heads]`; −1
            for none.

    Returns:
        float64 `[heads]`, from 0 to 1.

    Source: Wu et al. 2024, §2 (retrieval score; a token of the needle counts once, so that repeating it earns nothing).
    """
    copied = np.zeros((top.shape[1], len(needle)), dtype=bool)
    for token, keys in zip(generated, top, strict=True):
        place = keys - start
        inside = (place >= 0) & (place < len(needle))
        heads = np.flatnonzero(inside)
        heads = heads[needle[place[heads]] == token]
        copied[heads, place[heads]] = True
    return copied.mean(1) if len(needle) else np.zeros(top.shape[1])


def word_recall(wanted: str, said: str) -> float:
    """Share of the distinct words of a text that another one has, in any case (ROUGE-1 recall over distinct words)."""
    words = set(_WORD.findall(wanted.casefold()))
    return len(words & set(_WORD.findall(said.casefold()))) / len(words) if words else 0.0


def mean_scores(trials: list[Trial], *, answered: bool = False) -> np.ndarray | None:
    """The mean over trials (over those that were answered) of each head's score, `[heads]`; None without any."""
    scores = [trial.scores for trial in trials if trial.answered or not answered]
    return np.mean(scores, axis=0) if scores else None
