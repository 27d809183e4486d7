"""Which texts run through the model together: by what attention costs, n², and not by their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from heedmap.textsets.prepared import Prepared

BUDGET = 2**18
"""Pairs of tokens of a batch, padding included, that a CPU's caches like."""
_SLACK = 8
_OFTEN = 8


def batches_of(texts: Iterable[Prepared], budget: int) -> Iterator[list[Prepared]]:
    """Texts of like length, shortest first, with at most `budget` pairs (longest² · texts) each, but one text at least.

    A length that 8 texts have gets batches of its own, without padding. Others share theirs with texts at most a
    quarter longer than the shortest, or 8 tokens.
    """
    ordered = sorted(texts, key=lambda text: (len(text), text.place))
    often = {length for length, count in Counter(map(len, ordered)).items() if count >= _OFTEN}
    for length in sorted(often):
        same = [text for text in ordered if len(text) == length]
        step = max(1, budget // length**2)
        yield from (same[start : start + step] for start in range(0, len(same), step))
    batch: list[Prepared] = []
    for text in ordered:
        if len(text) in often:
            continue
        if batch:
            shortest, longest = len(batch[0]), len(text)
            too_long = longest > shortest + max(_SLACK, shortest // 4)
            if too_long or longest**2 * (len(batch) + 1) > budget:
                yield batch
                batch = []
        batch.append(text)
    if batch:
        yield batch
