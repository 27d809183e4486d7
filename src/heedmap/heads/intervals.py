"""Intervals by the bootstrap: how much a share would move with other texts of the same kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DRAWS = 2000


@dataclass(frozen=True)
class Bootstrap:
    """Resamples of a number of texts: how often each was drawn, float64 `[draws, texts]`."""

    counts: np.ndarray

    @classmethod
    def of(cls, texts: int, seed: int, draws: int = DRAWS) -> Bootstrap:
        """Draw as many texts as there are, with replacement, `draws` times."""
        random = np.random.default_rng(seed)
        return cls(random.multinomial(texts, np.full(texts, 1 / texts), size=draws).astype(np.float64))

    def interval(self, right: np.ndarray, items: np.ndarray) -> tuple[float, float]:
        """Low and high end, at 95 %, of Σ right / Σ items over texts; `right` and `items` are numbers of each text.

        Draws without any item are left out. Items of one text alone, or none, have no interval: NaN.
        """
        if np.count_nonzero(items) < 2:
            return float("nan"), float("nan")
        total = self.counts @ items
        some = total > 0
        low, high = np.quantile((self.counts @ right)[some] / total[some], [0.025, 0.975])
        return float(low), float(high)
