"""Which sentence shows best what a head does, and where it points in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heedmap.heads.syntax import READINGS, Arc, HeadName, Relation, pointed
from heedmap.heads.trees import Sentence
from heedmap.heads.units import Units

LENGTHS = range(5, 15)
"""Words of a sentence that fits on a page."""


@dataclass(frozen=True)
class Shown:
    """One sentence, the relation to be shown in it, and the head that follows it.

    `index` counts the sentences that were offered; `labels` are the texts of the units, `arcs` its gold arcs.
    """

    index: int
    labels: list[str]
    arcs: list[Arc]
    relation: str
    reading: str
    head: HeadName
    accuracy: float

    def arrows(self, weights: np.ndarray) -> list[tuple[int, int, float, bool | None]]:
        """Where the head points, as `(from, to, weight, right)` for each unit that points anywhere; `right` is None for
        a unit that the reading asks nothing of.

        `weights` is `[units, units]`; an arrow runs from the word that looks to the one that is looked at.
        """
        column = self.reading == READINGS[2]
        points = pointed(weights[None].swapaxes(1, 2) if column else weights[None])[0]
        wanted: dict[int, set[int]] = {}
        for arc in self.arcs:
            if arc.relation == self.relation:
                asked, answer = (arc.head, arc.dependent) if self.reading == READINGS[1] else (arc.dependent, arc.head)
                wanted.setdefault(asked, set()).add(answer)
        found = []
        for unit, target in enumerate(points.tolist()):
            if target >= 0:
                start, end = (target, unit) if column else (unit, target)
                right = target in wanted[unit] if unit in wanted else None
                found.append((start, end, float(weights[start, end]), right))
        return found


def sentence_to_show(
    relations: Sequence[Relation], sentences: Sequence[tuple[Sentence, Units, list[Arc]]]
) -> Shown | None:
    """The relation whose head is most surely above its offset (by the lower end of the gain's interval), in the odd
    sentence of 5 to 14 words with most of its arcs; of several the first. Whether the head is right there has no say.
    None where no such sentence is."""
    told = [(relation, relation.best(), relation.baseline()) for relation in relations if relation.odd_items]
    if not told:
        return None
    relation, best, _ = max(told, key=lambda one: np.nan_to_num(one[0].gain(one[1], one[2])[1], nan=-1))
    counts = [
        sum(arc.relation == relation.name for arc in arcs)
        if sentence.number % 2 and len(units) in LENGTHS and len(sentence.words) == len(units)
        else 0
        for sentence, units, arcs in sentences
    ]
    if not counts or max(counts) == 0:
        return None
    index = int(np.argmax(counts))
    sentence, units, arcs = sentences[index]
    labels = [" ".join(sentence.words[word].form for word in words) for words in units.words]
    return Shown(index, labels, arcs, relation.name, best.reading, (best.part, best.layer, best.head), best.accuracy)
