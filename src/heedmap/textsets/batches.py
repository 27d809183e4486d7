"""Which texts run through the model together: by what attention costs, n², and not by their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from heedmap.measure import MAP_SIZE
from heedmap.textsets.prepared import Prepared

BUDGET = 2**18
"""Pairs of tokens of a batch, padding included, that a CPU's caches like."""
_SLACK = 8


def batches_of(texts: Iterable[Prepared], budget: int) -> Iterator[list[Prepared]]:
    """Texts of like length, shortest first, with at most `budget` pairs (longest² · texts) each, but one text at least.

    Texts of one batch are at most a quarter longer than its shortest, or 8 tokens. Above 256 tokens, where a pooled
    map has fewer cells than tokens, they are of one length: padding would shift the cells.
    """
    batch: list[Prepared] = []
    for text in sorted(texts, key=lambda text: (len(text), text.place)):
        if batch:
            shortest, longest = len(batch[0]), len(text)
            too_long = longest > shortest + max(_SLACK, shortest // 4) or (longest > MAP_SIZE and longest != shortest)
            if too_long or longest**2 * (len(batch) + 1) > budget:
                yield batch
                batch = []
        batch.append(text)
    if batch:
        yield batch
