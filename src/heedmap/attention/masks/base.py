"""What a mask is: a function of query and key positions, evaluated a strip at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from heedmap.attention.masks.combine import And, Or

ALL_HEADS = slice(None)


@dataclass(frozen=True)
class Bounds:
    """Key positions that a strip of query rows must visit, and those it need not ask about.

    Keys outside `[visit_start, visit_stop)` are hidden from every row of the strip; keys inside
    `[full_start, full_stop)` are allowed for every row and every head. Either may be empty.
    """

    visit_start: int
    visit_stop: int
    full_start: int
    full_stop: int

    @classmethod
    def of(cls, visit: tuple[int, int], full: tuple[int, int], keys: tuple[int, int]) -> Bounds:
        """Bounds clipped to the keys that exist; an empty range is `(start, start)`."""
        visit_start, visit_stop = _clip(visit, keys)
        full_start, full_stop = _clip(full, (visit_start, visit_stop))
        return cls(visit_start, visit_stop, full_start, full_stop)


def _clip(span: tuple[int, int], within: tuple[int, int]) -> tuple[int, int]:
    start = min(max(span[0], within[0]), within[1])
    return start, max(start, min(span[1], within[1]))


@dataclass(frozen=True)
class Frame:
    """The sizes and positions of one attention call, which a mask made from data must fit."""

    batch: int
    heads: int
    query_len: int
    key_len: int
    query_offset: int
    key_offset: int


class Mask(ABC):
    """Which key positions a query position may attend to; combine masks with `&` and `|`.

    Positions are positions in the text: keys start at the call's `key_offset`, queries at its
    `query_offset`. A mask never builds the n×n table: it answers for one strip at a time.
    """

    per_head: bool = False
    """Whether the answer may differ between heads."""
    alike: int = 1
    """How many heads in a row have the same answer, where it may differ: pairs are counted for the first of them."""

    @abstractmethod
    def allowed(self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS) -> Tensor:
        """True where the pair may attend: bool, broadcastable to `[heads, rows, keys]`."""

    def bias(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        """What is added to the scaled scores of allowed pairs, broadcastable to `[heads, rows, keys]`; None is 0."""
        return None

    @property
    def biased(self) -> bool:
        """Whether `bias` may return something."""
        return False

    @property
    def requires_grad(self) -> bool:
        """Whether what `bias` returns comes from a tensor that asks for a gradient."""
        return False

    def tensors(self) -> tuple[Tensor, ...]:
        """The caller's tensors that it reads, which must not be changed while it is in use."""
        return ()

    def same_text(
        self, batch: int, query_positions: Tensor, key_positions: Tensor, heads: slice = ALL_HEADS
    ) -> Tensor | None:
        """Which keys are of the query's text, seen or not: bool, broadcastable to `[heads, rows, keys]`; None: all.

        What a mask of no known kind hides may be padding or another document, so it is taken for that.
        """
        return self.allowed(batch, query_positions, key_positions, heads)

    def bounds(self, batch: int, query_start: int, query_stop: int, key_start: int, key_stop: int) -> Bounds:
        """Keys in `[key_start, key_stop)` to visit for the rows `[query_start, query_stop)`."""
        return Bounds.of((key_start, key_stop), (key_start, key_start), (key_start, key_stop))

    def describe(self, batch: int = 0) -> dict[str, Any] | None:
        """The mask of one batch item as plain data, or None where there is no such description."""
        return None

    def fit(self, frame: Frame) -> Mask:
        """This mask for a call of these sizes; raises InputError where the sizes do not agree."""
        return self

    def __and__(self, other: Mask) -> And:
        from heedmap.attention.masks.combine import And

        return And(self, other)

    def __or__(self, other: Mask) -> Or:
        from heedmap.attention.masks.combine import Or

        return Or(self, other)

    def __invert__(self) -> Mask:
        raise TypeError("a mask is never inverted: True always means that the pair may attend")
