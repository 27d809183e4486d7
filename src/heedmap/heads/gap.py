"""GAP: a pronoun and two names in a paragraph, of which the pronoun means one, the other, or neither.

Every example asks twice: does the pronoun mean A? does it mean B? A head answers with the name that the pronoun's row
looks at most (the weights of its tokens summed), and says no to the other; a row without any weight on either says no
twice. Scores are those of the official scorer: precision, recall and F1 over all answers, for masculine and for
feminine pronouns, and the bias, feminine F1 over masculine F1.

Source: Webster et al. 2018; github.com/google-research-datasets/gap-coreference, gap_scorer.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heedmap.errors import InputError, StorageError

HEADER: tuple[str, ...] = (
    "ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL",
)  # fmt: skip
GENDERS = {"he": "masculine", "him": "masculine", "his": "masculine",
           "she": "feminine", "her": "feminine", "hers": "feminine"}  # fmt: skip
Span = tuple[int, int]


@dataclass(frozen=True)
class Example:
    """One paragraph; `pronoun`, `a` and `b` are `[start, end)` in characters of the text."""

    name: str
    text: str
    pronoun: Span
    a: Span
    b: Span
    a_meant: bool
    b_meant: bool
    gender: str

    @property
    def nearest(self) -> tuple[bool, bool]:
        """The answers of the baseline: the name with fewer characters between it and the pronoun; A where equal."""
        distances = [max(self.pronoun[0] - name[1], name[0] - self.pronoun[1]) for name in (self.a, self.b)]
        return distances[0] <= distances[1], distances[0] > distances[1]


def is_gap(path: Path) -> bool:
    """Whether a file begins with GAP's header line; raises StorageError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.readline(1000).rstrip(b"\r\n") == "\t".join(HEADER).encode()
    except OSError as problem:
        raise StorageError(
            "coreference", expected="a file to read", got=f"{problem.strerror or problem} ({path})"
        ) from problem


def read_examples(path: str | os.PathLike[str], limit: int | None = None) -> Iterator[Example]:
    """The examples of a GAP file, the first `limit` of them.

    Raises:
        InputError: a line of another form, or an offset at which the text says something else.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as problem:
        raise InputError(
            "gap", expected=f"text in UTF-8 in {path}", got=f"other bytes at {problem.start:,}"
        ) from problem
    for number, line in enumerate(lines[1:], 2):
        if limit is not None and number - 2 >= limit:
            return
        yield _example(line.split("\t"), f"line {number} of {path}")


def _example(cells: list[str], where: str) -> Example:
    if len(cells) != len(HEADER):
        raise InputError("gap", expected=f"{len(HEADER)} columns parted by tabs", got=f"{len(cells)} in {where}")
    row = dict(zip(HEADER, cells, strict=True))
    spans = [_span(row, name, where) for name in ("Pronoun", "A", "B")]
    meant = [_truth(row[f"{name}-coref"], where) for name in ("A", "B")]
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        raise InputError("gap", expected=f"a pronoun among {', '.join(GENDERS)}", got=f"{row['Pronoun']!r} in {where}")
    return Example(row["ID"], row["Text"], spans[0], spans[1], spans[2], meant[0], meant[1], gender)


def _span(row: dict[str, str], name: str, where: str) -> Span:
    word, offset = row[name], row[f"{name}-offset"]
    start = int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 10 else -1
    if start < 0 or not word or row["Text"][start : start + len(word)] != word:
        raise InputError(
            "gap", expected=f"{word!r} at character {offset} of the text in {where}",
            got=repr(row["Text"][start : start + len(word)]) if start >= 0 else f"offset {offset!r}",
            do="offsets count characters, not bytes",
        )  # fmt: skip
    return start, start + len(word)


def _truth(text: str, where: str) -> bool:
    if text.upper() not in ("TRUE", "FALSE"):
        raise InputError("gap", expected="TRUE or FALSE", got=f"{text!r} in {where}")
    return text.upper() == "TRUE"


def answers_of(weights: np.ndarray) -> np.ndarray:
    """Answers from the weights of the pronoun's row on A and B: `[…, 2]` → bool `[…, 2]`, at most one of them True."""
    first = (weights[..., 0] >= weights[..., 1]) & (weights[..., 0] > 0)
    second = weights[..., 1] > weights[..., 0]
    return np.stack([first, second], axis=-1)


@dataclass(frozen=True)
class Counts:
    """True positives, false positives and false negatives of each example, int64 `[examples, …]`."""

    true_positives: np.ndarray
    false_positives: np.ndarray
    false_negatives: np.ndarray

    @classmethod
    def of(cls, answers: np.ndarray, examples: Sequence[Example]) -> Counts:
        """Hold answers, bool `[examples, …, 2]`, against the gold ones."""
        gold = np.array([(example.a_meant, example.b_meant) for example in examples], dtype=bool).reshape(-1, 2)
        gold = gold.reshape(len(gold), *(1,) * (answers.ndim - 2), 2)
        return cls((answers & gold).sum(-1), (answers & ~gold).sum(-1), (~answers & gold).sum(-1))

    def parts(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What F1 is the ratio of, of chosen examples: 2 TP, and 2 TP + FP + FN."""
        right = 2 * self.true_positives[which]
        return right, right + self.false_positives[which] + self.false_negatives[which]

    def f1(self, which: np.ndarray) -> np.ndarray:
        """F1 over chosen examples, `[…]`; 0 where nothing is right, NaN where nothing was asked or answered."""
        right, total = (part.sum(0) for part in self.parts(which))
        return np.divide(right, total, out=np.full(np.shape(total), np.nan), where=total > 0)

    def precision(self, which: np.ndarray) -> np.ndarray:
        """Share of the answers yes that are right."""
        return _share(self.true_positives[which], self.false_positives[which])

    def recall(self, which: np.ndarray) -> np.ndarray:
        """Share of the names meant that were found."""
        return _share(self.true_positives[which], self.false_negatives[which])


def _share(right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    total = right.sum(0) + wrong.sum(0)
    return np.divide(right.sum(0), total, out=np.full(np.shape(total), np.nan), where=total > 0)
