"""Which layers and heads are asked for."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from heedmap.errors import InputError


@dataclass(frozen=True)
class Selection:
    """Which layers and heads are measured; None means all."""

    layers: frozenset[int] | None = None
    heads: tuple[int, ...] | None = None
    pairs: frozenset[tuple[int, int]] | None = None

    @classmethod
    def of(
        cls, layers: Iterable[int] | int | None, heads: Iterable[int | str | tuple[int, int]] | int | None
    ) -> Selection:
        """Layers by number; heads by number (in every layer) or as `"layer.head"` or `(layer, head)`."""
        wanted = None if layers is None else frozenset(_number("layer", item) for item in _each(layers))
        if wanted is not None and not wanted:
            raise InputError("layers", expected="at least one layer", got="none", do="leave layers out for all")
        if heads is None:
            return cls(wanted)
        plain: set[int] = set()
        pairs: set[tuple[int, int]] = set()
        for item in _each(heads):
            if isinstance(item, str) and re.fullmatch(r"\d+\.\d+", item):
                layer, head = item.split(".")
                pairs.add((int(layer), int(head)))
            elif isinstance(item, tuple) and len(item) == 2:
                pairs.add((_number("layer", item[0]), _number("head", item[1])))
            else:
                plain.add(_number("head", item))
        if not plain and not pairs:
            raise InputError("heads", expected="at least one head", got="none", do="leave heads out for all")
        asked = frozenset(layer for layer, _ in pairs)
        if wanted is not None and asked - wanted:
            raise InputError(
                "heads",
                expected=f"heads of the layers asked for ({spans(sorted(wanted))})",
                got=f"a head of layer {min(asked - wanted)}",
            )
        if not plain:
            wanted = asked
        return cls(wanted, tuple(sorted(plain)), frozenset(pairs))

    def of_layer(self, layer: int, count: int) -> list[int] | None:
        """The heads to measure of a layer with `count` heads; None where the layer is not measured.

        Raises:
            InputError: a head that this layer does not have.
        """
        if self.layers is not None and layer not in self.layers:
            return None
        if self.heads is None:
            return list(range(count))
        wanted = sorted({*self.heads, *(head for at, head in self.pairs or () if at == layer)})
        if wanted and wanted[-1] >= count:
            raise InputError("heads", expected=f"heads 0 to {count - 1} in layer {layer}", got=f"head {wanted[-1]}")
        return wanted or None

    def check(self, available: Iterable[int]) -> None:
        """Raise InputError for a layer that has no attention (or does not exist), listing those that do."""
        there = sorted(set(available))
        missing = sorted((self.layers or frozenset()) - set(there))
        if missing:
            raise InputError(
                "layers",
                expected=f"layers with attention ({spans(there)})",
                got=f"layer {missing[0]}",
                do="layers are numbered from 0, as the model numbers them",
            )


def _each(items: Any) -> tuple[Any, ...]:
    if isinstance(items, int | str):
        return (items,)
    if not isinstance(items, Iterable):
        raise InputError("selection", expected="numbers of layers or heads", got=f"{items!r}")
    return tuple(items)


def _number(what: str, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    try:
        number = -1 if isinstance(value, bool | str) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise InputError(f"{what}s", expected=f"{what} numbers from 0", got=f"{value!r}")
    return number


def spans(numbers: list[int]) -> str:
    """`[0, 1, 2, 5]` → `0-2, 5`."""
    texts: list[str] = []
    start = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            first = numbers[start]
            texts.append(f"{first}" if first == number else f"{first}-{number}")
            start = place + 1
    return ", ".join(texts) or "none"
