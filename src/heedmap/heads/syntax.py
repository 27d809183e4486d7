"""Which head follows which relation of grammar: accuracy on gold trees, against the best fixed offset.

A gold arc joins a dependent and its head. For every head of the model, three readings say which word it points to:

    dependent row       dependent → head: the word that the dependent looks at most is its head
    head row            head → dependent: the word that the head looks at most is the dependent
    dependent column    head → dependent: the word that looks most at the dependent is its head (the transposed
                        matrix, as in the notebook of Clark et al.)

Self and special tokens are left out. A row without any weight on another word points nowhere, and is wrong. What is
best (a head with a reading; an offset from −10 to 10, which is wrong where it leaves the sentence) is chosen on the
sentences with even numbers, and scored on those with odd ones.

Source: Clark et al. 2019, §4.2 and table 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from heedmap.errors import InputError
from heedmap.heads.intervals import Bootstrap
from heedmap.heads.trees import ROOT, Sentence
from heedmap.heads.units import Units

READINGS = ("dependent row", "head row", "dependent column")
OFFSETS = np.array([offset for offset in range(-10, 11) if offset])
"""Where the head stands, in words to the right of the dependent."""
KEPT_SUBTYPES = frozenset(("nmod:poss", "compound:prt"))
"""Relations whose subtype is one of its own in Clark et al. (poss, prt); others lose theirs."""
HeadName = tuple[str, int, int]
NAN = float("nan")


@dataclass(frozen=True)
class Arc:
    """One gold arc between two units of a sentence."""

    dependent: int
    head: int
    relation: str


@dataclass
class Lost:
    """Gold arcs that no weight can tell, and why; each is counted once."""

    without_token: int = 0
    sharing_a_token: int = 0


def relation_of(label: str) -> str:
    """A relation without its subtype, except `nmod:poss` and `compound:prt`."""
    return label if label in KEPT_SUBTYPES else label.partition(":")[0]


def arcs_of(sentence: Sentence, units: Units, lost: Lost) -> list[Arc]:
    """The arcs of a sentence between words that have units of their own; the others are counted in `lost`.

    `root` is no arc, and neither is a word for which the file gives no head or no relation.
    """
    arcs = []
    alone, of_word = units.alone, units.of_word
    for number, word in enumerate(sentence.words):
        if word.head is None or word.head == ROOT or not word.relation:
            continue
        ends = (number, word.head)
        if any(of_word[end] < 0 for end in ends):
            lost.without_token += 1
        elif not all(alone[end] for end in ends):
            lost.sharing_a_token += 1
        else:
            arcs.append(Arc(int(of_word[number]), int(of_word[word.head]), relation_of(word.relation)))
    return arcs


def pointed(weights: np.ndarray) -> np.ndarray:
    """The unit that each row points to, int64 `[heads, units]`: the largest weight on another unit; −1 for none.

    `weights` is `[heads, units, units]`; the first of equal ones wins.
    """
    others = np.where(np.eye(weights.shape[1], dtype=bool), -1.0, weights)
    best = others.argmax(2)
    return np.where(np.take_along_axis(others, best[..., None], 2)[..., 0] > 0, best, -1)


def hits_of(weights: np.ndarray, arcs: Sequence[Arc]) -> np.ndarray:
    """Which heads find which arcs by which reading, bool `[arcs, readings, heads]`.

    Args:
        weights: of one sentence, `[heads, units, units]`.
    """
    dependents, heads = _ends(arcs)
    rows, columns = pointed(weights), pointed(weights.swapaxes(1, 2))
    found = [
        rows[:, dependents] == heads,
        rows[:, heads] == dependents,
        columns[:, dependents] == heads,
    ]
    return np.stack(found).transpose(2, 0, 1)


def offset_hits(arcs: Sequence[Arc]) -> np.ndarray:
    """Which of `OFFSETS` find which arcs, bool `[arcs, offsets]`; the head is a unit of the sentence, so that what
    points outside is wrong."""
    dependents, heads = _ends(arcs)
    return (heads - dependents)[:, None] == OFFSETS


def _ends(arcs: Sequence[Arc]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.array([(arc.dependent, arc.head) for arc in arcs], dtype=np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


@dataclass
class Tally:
    """Arcs that were scored so far, packed to a bit a head, so that a treebank fits in memory."""

    heads: tuple[HeadName, ...]
    _sentence: list[int] = field(default_factory=list)
    _relation: list[str] = field(default_factory=list)
    _hits: list[np.ndarray] = field(default_factory=list)
    _offsets: list[np.ndarray] = field(default_factory=list)
    causal: bool = True
    """Whether no head put weight on a later word so far."""

    def add(self, number: int, arcs: Sequence[Arc], weights: np.ndarray) -> None:
        """Score the arcs of sentence `number` with its weights, `[heads, units, units]`."""
        if weights.shape[0] != len(self.heads):
            raise InputError("syntax", expected=f"weights of {len(self.heads)} heads", got=f"{weights.shape[0]}")
        self.causal = self.causal and not np.triu(weights.max(0), 1).any()
        if arcs:
            self._sentence += [number] * len(arcs)
            self._relation += [arc.relation for arc in arcs]
            self._hits.append(np.packbits(hits_of(weights, arcs), axis=2))
            self._offsets.append(offset_hits(arcs))

    def __len__(self) -> int:
        return len(self._sentence)

    def scores(self, seed: int = 0) -> list[Relation]:
        """Every relation, the one with most arcs first.

        Raises:
            InputError: no arc was scored.
        """
        if not self._sentence:
            raise InputError("syntax", expected="arcs of a gold tree", got="none that can be scored")
        sentence, relation = np.array(self._sentence), np.array(self._relation)
        order = np.argsort(sentence, kind="stable")
        sentence, relation = sentence[order], relation[order]
        hits, offsets = np.concatenate(self._hits)[order], np.concatenate(self._offsets)[order]
        odd = np.unique(sentence[sentence % 2 == 1])
        bootstrap = Bootstrap.of(len(odd), seed) if len(odd) else None
        found = []
        for name in np.unique(relation):
            own = relation == name
            unpacked = np.unpackbits(hits[own], axis=2, count=len(self.heads)).astype(bool)
            found.append(Relation(str(name), self.heads, sentence[own], unpacked, offsets[own], odd, bootstrap))
        return sorted(found, key=lambda relation: -relation.items)


@dataclass(frozen=True)
class Choice:
    """What was chosen on even sentences, and how it does on odd ones: shares of arcs, NaN without arcs."""

    chosen: float
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class BestHead(Choice):
    """The best head of a relation and the reading by which it was best."""

    reading: str
    part: str
    layer: int
    head: int


@dataclass(frozen=True)
class BestOffset(Choice):
    """The best fixed offset of a relation: the head stands so many words to the right of the dependent."""

    offset: int


class Relation:
    """All arcs of one relation, and which heads and offsets found them."""

    def __init__(
        self,
        name: str,
        heads: tuple[HeadName, ...],
        sentence: np.ndarray,
        hits: np.ndarray,
        offsets: np.ndarray,
        odd: np.ndarray,
        bootstrap: Bootstrap | None,
    ) -> None:
        self.name = name
        self.heads = heads
        self._sentence = sentence
        self._hits = hits
        self._offsets = offsets
        self._odd = odd
        self._bootstrap = bootstrap
        self._even = sentence % 2 == 0

    @property
    def items(self) -> int:
        """Arcs."""
        return len(self._sentence)

    @property
    def even_items(self) -> int:
        """Arcs of even sentences, on which is chosen."""
        return int(self._even.sum())

    @property
    def odd_items(self) -> int:
        """Arcs of odd sentences, on which is scored."""
        return self.items - self.even_items

    def accuracy(self, half: str = "all") -> np.ndarray:
        """Accuracy of every head by every reading, float64 `[readings, heads]`, NaN without arcs.

        `half`: "even", "odd" or "all".
        """
        which = {"even": self._even, "odd": ~self._even, "all": np.ones_like(self._even)}[half]
        return _mean(self._hits[which])

    def best(self, reading: str | None = None) -> BestHead:
        """The head, by one reading or by any, that is best on the even sentences; the first of equal ones."""
        chosen = self.accuracy("even")
        if reading is not None:
            chosen[[other != reading for other in READINGS]] = -1
        which, head = np.unravel_index(np.nan_to_num(chosen, nan=-1).argmax(), chosen.shape)
        part, layer, number = self.heads[head]
        odd, low, high = self._scored(self._hits[:, which, head])
        return BestHead(float(chosen[which, head]), odd, low, high, READINGS[which], part, layer, number)

    def baseline(self) -> BestOffset:
        """The offset that is best on the even sentences; the first of equal ones."""
        chosen = _mean(self._offsets[self._even])
        which = int(np.nan_to_num(chosen, nan=-1).argmax())
        return BestOffset(float(chosen[which]), *self._scored(self._offsets[:, which]), int(OFFSETS[which]))

    def gain(self, best: BestHead, baseline: BestOffset) -> tuple[float, float, float]:
        """Accuracy of the head minus that of the offset on the odd sentences, with its interval."""
        which, head = READINGS.index(best.reading), self.heads.index((best.part, best.layer, best.head))
        offset = OFFSETS.tolist().index(baseline.offset)
        return self._scored(self._hits[:, which, head].astype(np.int64) - self._offsets[:, offset])

    def _scored(self, right: np.ndarray) -> tuple[float, float, float]:
        """Mean over arcs of odd sentences, with the interval of the bootstrap over sentences."""
        if self._bootstrap is None or self.odd_items == 0:
            return NAN, NAN, NAN
        place = np.searchsorted(self._odd, self._sentence[~self._even])
        items = np.bincount(place, minlength=len(self._odd))
        found = np.bincount(place, weights=right[~self._even], minlength=len(self._odd))
        low, high = self._bootstrap.interval(found, items)
        return float(found.sum() / items.sum()), low, high


def _mean(hits: np.ndarray) -> np.ndarray:
    return hits.mean(0) if len(hits) else np.full(hits.shape[1:], np.nan)
