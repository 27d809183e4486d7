"""Joins what a watch sees of each `generate()` into one call a layer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from heedmap.capture.generation import Generation
from heedmap.capture.interface import measured
from heedmap.capture.joining import Kept
from heedmap.capture.known import Generated
from heedmap.capture.reading import Reading
from heedmap.capture.session import Session


class Joiner:
    """Listens to a model that generates, on behalf of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, inputs: int) -> None:
        """A `generate()` from so many inputs begins."""
        self._session.generation = Generation(inputs, self._session.keeps_value)

    def told(self, ids: Tensor) -> None:
        """It is about to read these tokens."""
        if self._session.generation is not None:
            self._session.generation.told(ids)

    def end(self, sequences: Tensor, lengths: Callable[[int], list[int]]) -> None:
        """It has ended and returns these texts; `lengths(prompt)` says how many tokens of each are its own."""
        generation = self._session.generation
        if generation is not None:
            generation.join(sequences, lengths(generation.prompt_len), self._measure)

    def drop(self) -> None:
        """It is over, whatever happened."""
        self._session.generation = None

    def _measure(self, kept: Kept, reading: Reading, generated: Generated) -> None:
        heads = self._session.selection.of_layer(kept.place.layer, reading.query.shape[1])
        assert heads is not None
        measured(self._session, kept.place, reading, heads, kept.dropout, generated=generated)
