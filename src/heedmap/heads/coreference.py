"""Which head finds antecedents: from a mention's head word, the earlier mention whose head word it looks at most.

Candidates are the head words of all earlier mentions of the window, singletons among them; the answer is right if a
mention of the same chain stands there. Baselines:

    nearest               the nearest earlier mention
    same word             the nearest earlier mention with the same head word (case aside); none, and wrong, where
                          there is none
    same word, nearest    the same, and else the nearest
    first                 the first mention of the window: what a head finds that rests on the beginning of the text,
                          where a biography names its subject

A head that only finds the same word is no coreference head: mentions that have no earlier one with the same head word
are scored apart. Head and baselines compare on the documents with odd numbers; the head is chosen on the even ones.

Source: Clark et al. 2019, §4.3 and table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from heedmap.errors import InputError
from heedmap.heads.intervals import Bootstrap
from heedmap.heads.mentions import KINDS

BASELINES = ("nearest", "same word", "same word, nearest", "first")
BLIND = ("nearest", "first")
"""Baselines that look at no word."""
CLASSES = ("all", *KINDS)
HeadName = tuple[str, int, int]
NAN = float("nan")


@dataclass(frozen=True)
class Place:
    """A word of a window where mentions have their heads: their chains, its kind and its form."""

    chains: frozenset[str]
    kind: str
    word: str


@dataclass(frozen=True)
class Item:
    """A mention to be resolved among the earlier places: the number of its own place, which of the earlier ones are
    right, bool `[place]`, and which baselines are."""

    place: int
    right: np.ndarray
    kind: str
    same_word: bool
    baselines: tuple[bool, bool, bool, bool]


def items_of(places: Sequence[Place], anaphors: Sequence[tuple[int, str]]) -> tuple[list[Item], int]:
    """The items of a window.

    Args:
        places: in the order of the text.
        anaphors: place and chain of each mention that has an earlier one of its chain in the document.

    Returns:
        Items, and how many anaphors have no antecedent among the earlier places of this window.
    """
    items, lost = [], 0
    for place, chain in anaphors:
        right = np.array([chain in earlier.chains for earlier in places[:place]], dtype=bool)
        if not right.any():
            lost += 1
            continue
        same = [number for number in range(place) if places[number].word == places[place].word]
        nearest, match = bool(right[-1]), bool(same) and bool(right[same[-1]])
        baselines = (nearest, match, match if same else nearest, bool(right[0]))
        items.append(Item(place, right, places[place].kind, bool(same), baselines))
    return items, lost


def hits_of(weights: np.ndarray, items: Sequence[Item]) -> np.ndarray:
    """Which heads find an antecedent of which items, bool `[items, heads]`; no weight on any candidate is wrong.

    `weights` is `[heads, places, places]`.
    """
    found = np.zeros((len(items), weights.shape[0]), dtype=bool)
    for number, item in enumerate(items):
        row = weights[:, item.place, : item.place]
        best = row.argmax(1)
        found[number] = item.right[best] & (np.take_along_axis(row, best[:, None], 1)[:, 0] > 0)
    return found


@dataclass
class Tally:
    """Items that were scored so far."""

    heads: tuple[HeadName, ...]
    _document: list[int] = field(default_factory=list)
    _items: list[Item] = field(default_factory=list)
    _hits: list[np.ndarray] = field(default_factory=list)

    def add(self, document: int, items: Sequence[Item], weights: np.ndarray) -> None:
        """Score the items of a window of document number `document`, `weights` `[heads, places, places]`."""
        if weights.shape[0] != len(self.heads):
            raise InputError("coreference", expected=f"weights of {len(self.heads)} heads", got=f"{weights.shape[0]}")
        if items:
            self._document += [document] * len(items)
            self._items += items
            self._hits.append(hits_of(weights, items))

    def __len__(self) -> int:
        return len(self._items)

    def scores(self, seed: int = 0) -> list[Resolved]:
        """Each class of mentions, with any earlier ones and without one of the same head word.

        Raises:
            InputError: no item was scored, or none in the even or the odd documents.
        """
        documents = np.array(self._document, dtype=np.int64)
        if len(set((documents % 2).tolist())) < 2:
            raise InputError(
                "coreference",
                expected="mentions with an antecedent in two documents at least: heads are chosen on even ones and "
                "scored on odd ones",
                got=f"{len(documents)} in {len(set(documents.tolist()))}",
                do="give more documents",
            )
        order = np.argsort(documents, kind="stable")
        documents = documents[order]
        hits = np.concatenate(self._hits)[order]
        items = [self._items[number] for number in order]
        baselines = np.array([item.baselines for item in items])
        kinds, same = np.array([item.kind for item in items]), np.array([item.same_word for item in items])
        odd = np.unique(documents[documents % 2 == 1])
        bootstrap = Bootstrap.of(len(odd), seed)
        found = []
        for name in CLASSES:
            for apart in (False, True):
                own = (kinds == name) | (name == "all")
                own = own & ~same if apart else own
                found.append(
                    Resolved(name, apart, self.heads, documents[own], hits[own], baselines[own], odd, bootstrap)
                )
        return found


@dataclass(frozen=True)
class Resolved:
    """The mentions of one class, and who found their antecedents.

    `apart`: those alone that have no earlier mention with the same head word.
    """

    name: str
    apart: bool
    heads: tuple[HeadName, ...]
    documents: np.ndarray
    hits: np.ndarray
    baselines: np.ndarray
    odd: np.ndarray
    bootstrap: Bootstrap

    @property
    def items(self) -> int:
        return len(self.documents)

    @property
    def odd_items(self) -> int:
        return int((self.documents % 2 == 1).sum())

    def accuracy(self, half: str = "all") -> np.ndarray:
        """Accuracy of every head, float64 `[heads]`, NaN without items; `half` is "even", "odd" or "all"."""
        parity = self.documents % 2
        which = {"even": parity == 0, "odd": parity == 1, "all": parity >= 0}[half]
        return self.hits[which].mean(0) if which.any() else np.full(len(self.heads), NAN)

    def best(self) -> int:
        """Number of the head that is best on even documents; the first of equal ones."""
        return int(np.nan_to_num(self.accuracy("even"), nan=-1).argmax())

    def scored(self, right: np.ndarray) -> tuple[float, float, float]:
        """Share of the items of odd documents, with its interval by the bootstrap over documents."""
        if not self.odd_items:
            return NAN, NAN, NAN
        which = self.documents % 2 == 1
        place = np.searchsorted(self.odd, self.documents[which])
        items = np.bincount(place, minlength=len(self.odd))
        found = np.bincount(place, weights=right[which], minlength=len(self.odd))
        low, high = self.bootstrap.interval(found, items)
        return float(found.sum() / items.sum()), low, high

    def of_head(self, head: int) -> tuple[float, float, float]:
        """Accuracy of a head on odd documents, with its interval."""
        return self.scored(self.hits[:, head])

    def above(self, head: int, baseline: str) -> tuple[float, float, float]:
        """Accuracy of a head minus that of a baseline on odd documents, with the interval of the difference."""
        return self.scored(self.hits[:, head].astype(np.int64) - self.baselines[:, BASELINES.index(baseline)])

    def of_baseline(self, name: str) -> float:
        """Accuracy of a baseline on odd documents."""
        return self.scored(self.baselines[:, BASELINES.index(name)])[0]
