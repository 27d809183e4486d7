"""What is asked of a scan, as plain data that every worker gets and that a resumed scan is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import InputError
from heedmap.statistics.catalogue import STATISTICS, asked_names, choose
from heedmap.textsets.batches import BUDGET

WHERE = "scan"
PER_SHARD = 1024
ALWAYS = (
    "entropy",
    "max_weight",
    "argmax",
    "row_mass",
    "concentration",
    "saturation",
    "mean_distance",
    "received",
    "distance_profile",
    "part_mass",
)
"""Measured in every scan: the compiled pass has them all in one go, and all tables follow from them."""


@dataclass(frozen=True)
class Settings:
    """What to measure and how.

    Attributes:
        model: a model's name, folder or file; None for the packaged default.
        statistics: names beyond those of every scan.
        layers, heads: as in `watch`; None for all.
        max_tokens: longer texts are cut to so many tokens; None refuses what is longer than the model's positions.
        budget: pairs of tokens of a batch.
    """

    model: str | None = None
    statistics: tuple[str, ...] = ()
    layers: tuple[int, ...] | None = None
    heads: tuple[int | str, ...] | None = None
    max_tokens: int | None = None
    budget: int = BUDGET

    def check(self) -> None:
        """Raise InputError for names and numbers that cannot be."""
        for name, least in (("budget", 1), ("max_tokens", 1)):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < least):
                raise InputError(WHERE, expected=f"{name} as a whole number of {least} or more", got=repr(number))
        one, mark = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, dtype=torch.bool)
        choose(
            self.names(), AttentionInputs(one, one, one, token_ids=mark.long(), classes={"class": mark}, parts=one[0])
        )

    def names(self) -> list[str]:
        """Everything that is measured."""
        return list(dict.fromkeys([*ALWAYS, *self.statistics]))

    def plan(self) -> dict[str, Any]:
        """As plain data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def further(names: object) -> tuple[str, ...]:
    """Names of statistics beyond the default ones, checked. Raises InputError."""
    asked: Mapping[str, None] = dict.fromkeys(asked_names(names))  # type: ignore[arg-type]
    for name in asked:
        if name == "all" or (name in STATISTICS and STATISTICS[name].over_rows == "none" and name not in ALWAYS):
            raise InputError(
                WHERE,
                expected="statistics that give a head one number in each text",
                got=repr(name),
                do="heedmap statistics lists them; induction, duplicate and class_mass are such",
            )
    return tuple(name for name in asked if name != "default")
