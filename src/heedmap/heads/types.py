"""Types of attention head: what each is called, the number that speaks for it, and where its bar comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

SHORT = 128
"""Tokens up to which Clark et al. compare entropies: their texts had 128."""
NEAR = 5
"""Tokens on either side that count as local."""
FEWEST_ROWS = 8
"""Rows with an earlier copy below which a text says nothing about copying."""

OWN = "heedmap's own bar: more than on all else together"


@dataclass(frozen=True)
class HeadType:
    """One type: a head is of it where its value is above `bar` (at least `bar` for `positional`).

    `says` completes "looks at …"; `value` says what number is compared; `source` where the bar comes from.
    """

    name: str
    says: str
    value: str
    bar: float
    unit: str
    source: str
    at_least: bool = False

    def holds(self, value: float) -> bool:
        """Whether this value makes the type; NaN never does."""
        return bool(value >= self.bar if self.at_least else value > self.bar)

    @property
    def sign(self) -> str:
        return "≥" if self.at_least else ">"


_WEIGHT = "weight"
_CLARK = "Clark et al. 2019, §3"
TYPES: dict[str, HeadType] = {
    kind.name: kind
    for kind in (
        HeadType("induction", "what followed earlier copies of the token",
                 "mean weight on the tokens after earlier copies, over rows that have one", 0.5, _WEIGHT,
                 f"score: Olsson et al. 2022; {OWN}"),
        HeadType("duplicate", "earlier copies of the token", "mean weight on earlier copies, over rows that have one",
                 0.5, _WEIGHT, f"score: Wang et al. 2022; {OWN}"),
        HeadType("previous", "the token before", "mean weight on the previous token, over rows that have one", 0.5,
                 _WEIGHT, _CLARK),
        HeadType("next", "the token after", "mean weight on the next token, over rows that may see one", 0.5, _WEIGHT,
                 _CLARK),
        HeadType("positional", "the token before, or the one after, whatever they are",
                 "share of rows whose largest weight is on the token before (or: after)", 0.9, "rows",
                 "Voita et al. 2019, §5", at_least=True),
        HeadType("self", "the token itself", "mean weight on the token itself", 0.5, _WEIGHT, OWN),
        HeadType("local", f"tokens at most {NEAR} away",
                 f"weight at most {NEAR} tokens away, the mean over rows of a text of over {4 * (2 * NEAR + 1)} tokens",
                 0.5, _WEIGHT, OWN),
        HeadType("first", "the first token", "mean weight on the first token", 0.6, _WEIGHT, f"{_CLARK}, on [CLS]"),
        HeadType("sink", "one token, from everywhere",
                 "largest mean weight of a key, among keys that half of the rows may see", 0.3, _WEIGHT,
                 "Gu et al. 2024, α > 0.3"),
        HeadType("separator", "later special tokens",
                 "mean weight on special tokens but the first token, over rows that may see one", 0.6, _WEIGHT,
                 f"{_CLARK}, on [SEP]"),
        HeadType("punctuation", "punctuation", "mean weight on punctuation, over rows that may see any", 0.6, _WEIGHT,
                 f"{_CLARK}, on periods and commas"),
        HeadType("broad", "many tokens at once", f"mean entropy of a row, in texts of at most {SHORT} tokens", 3.8,
                 "nats", _CLARK),
    )
}  # fmt: skip
"""Every type by name, in the order of a table."""


@dataclass(frozen=True)
class TypedHead:
    """One head with its values and the types that they make, strongest evidence as in `TYPES`' order."""

    part: str
    layer: int
    head: int
    values: Mapping[str, float]
    types: tuple[str, ...]
    sink: int | None = None
    """Text position of the token that `sink` speaks of."""


@dataclass(frozen=True)
class Typing:
    """The heads of a run, or of a probe, with their types.

    `unjudged` says for each type why no head was held against it (a text without punctuation, a run without maps).
    """

    heads: list[TypedHead]
    unjudged: Mapping[str, str] = field(default_factory=dict)

    def of_type(self, name: str) -> list[TypedHead]:
        """The heads of one type, highest value first."""
        found = [head for head in self.heads if name in head.types]
        return sorted(found, key=lambda head: -head.values[name])

    @property
    def none(self) -> list[TypedHead]:
        """Heads that no type describes."""
        return [head for head in self.heads if not head.types]


def judge(
    heads: Sequence[tuple[str, int, int]],
    values: Mapping[str, np.ndarray],
    unjudged: Mapping[str, str] | None = None,
    sinks: Sequence[int | None] | None = None,
) -> Typing:
    """Hold each head's values against the bars.

    Args:
        heads: (part, layer, head) of each.
        values: type → one number a head, NaN where it has no meaning; types that are absent are not judged.
        unjudged: type → why it is absent.
        sinks: the text position that each head's `sink` value is about.
    """
    typed = []
    for index, (part, layer, head) in enumerate(heads):
        own = {name: float(values[name][index]) for name in TYPES if name in values}
        types = tuple(name for name, value in own.items() if TYPES[name].holds(value))
        typed.append(TypedHead(part, layer, head, own, types, None if sinks is None else sinks[index]))
    why = dict(unjudged or {})
    for name in TYPES:
        if name not in why and (name not in values or not np.isfinite(values[name]).any()):
            why[name] = "nothing in this text to judge it by" if name in values else "not measured"
    return Typing(typed, why)
