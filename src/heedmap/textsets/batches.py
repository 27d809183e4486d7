"""Which texts run through the model together: by what attention costs, n², and not by their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from heedmap.textsets.prepared import Prepared

BUDGET = 2**18
"""Pairs of tokens of a batch, padding included, that a CPU's caches like."""
_SLACK = 8
_OFTEN = 8


def batches_of(texts: Iterable[Prepared], budget: int) -> list[list[Prepared]]:
    """Texts of like length with at most `budget` pairs (longest² · texts) each, but one text at least.

    A length that 8 texts have gets batches of its own, without padding. Others share theirs with texts at most a
    quarter longer than the shortest, or 8 tokens. Batches of the most tokens come first: later ones find room in the
    memory that those leave behind, while batches that grow would each leave a hole too small for the next.
    """
    return sorted(_cut(texts, budget), key=lambda batch: -len(batch) * len(batch[-1]))


def _cut(texts: Iterable[Prepared], budget: int) -> Iterator[list[Prepared]]:
    """The batches, the longest text of each last."""
    by_length: dict[int, list[Prepared]] = {}
    for text in sorted(texts, key=lambda text: text.place):
        by_length.setdefault(len(text), []).append(text)
    others: list[tuple[int, Prepared]] = []
    for length, same in sorted(by_length.items()):
        if len(same) < _OFTEN:
            others += [(length, text) for text in same]
            continue
        step = max(1, budget // length**2)
        yield from (same[start : start + step] for start in range(0, len(same), step))
    batch: list[Prepared] = []
    shortest = 0
    for longest, text in others:
        if batch:
            too_long = longest > shortest + max(_SLACK, shortest // 4)
            if too_long or longest**2 * (len(batch) + 1) > budget:
                yield batch
                batch = []
        shortest = shortest if batch else longest
        batch.append(text)
    if batch:
        yield batch
