"""Sums over the texts of many calls: what a head does on the whole, in memory that does not grow with their number."""

from __future__ import annotations

from dataclasses import replace

from heedmap.capture.session import Call
from heedmap.errors import InputError


class Sums:
    """Adds calls up, one for each part and layer, in a list of calls that it keeps current.

    The result is that of `Measurements.pooled` over all texts of all passes.
    """

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls
        self._places: dict[tuple[str, int], int] = {}

    def add(self, call: Call) -> None:
        """Take one call."""
        found = call.measurements.pooled()
        key = (call.part, call.layer)
        added = replace(call, measurements=found, token_ids=None)
        if key not in self._places:
            self._places[key] = len(self._calls)
            self._calls.append(added)
            return
        before = self._calls[self._places[key]]
        if before.heads != call.heads:
            raise InputError(
                "watch", expected=f"the same heads of {call.part} {call.layer} in every pass", got="others"
            )
        self._calls[self._places[key]] = replace(added, measurements=before.measurements.merge(found))
