from __future__ import annotations

import torch
from torch import Tensor

from heedmap.statistics.base import GroupStatistic
from heedmap.statistics.dense import Dense


class DistanceProfile(GroupStatistic):
    """The weight at each distance, summed over all pairs at that distance; `distance_pairs` counts the allowed ones."""

    name = "distance_profile"
    axis = "distance"
    reduction = "sum"
    unit = "weight"
    formula = "Σ_{query - key = d} w"
    positional = True

    def definition(self, dense: Dense) -> Tensor:
        return by_distance(dense.weights)


def by_distance(table: Tensor) -> Tensor:
    """Sums of the diagonals of `[batch, head, query, key]`, from the furthest key ahead to the furthest behind."""
    queries, keys = table.shape[-2:]
    diagonals = [table.diagonal(-distance, -2, -1).sum(-1) for distance in range(1 - keys, queries)]
    return torch.stack(diagonals, dim=-1)
