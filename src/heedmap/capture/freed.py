"""Give freed memory back to the system between layers and passes over a long text, and between many texts."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from heedmap.machine import resident_memory

LONG = 1024
"""Tokens from which what a layer or a pass leaves behind is worth the call."""
GROWTH = 256 * 2**20
"""Bytes of growth that are worth the call between passes over many short texts."""


def give_back(tokens: int) -> None:
    """Return freed memory to the system, after a layer of so many query rows, a pass over so many keys, or such texts.

    glibc keeps it: tables that a layer needed for a moment would stay with the process until it ends, about 20 MB a
    layer at 8,192 tokens. So would the places of keys and values that each decoding step copies to make room for one
    more: they are too small for the next, and what is measured stands between them, so that they do not grow together
    (80 MB a step for SmolLM2 at 4,096 tokens). Elsewhere the allocator does this by itself, and nothing happens.
    """
    trim = _trim()
    if trim is not None and tokens >= LONG:
        trim(0)


class Growth:
    """Gives freed memory back whenever the process has grown by `GROWTH` bytes since it last did."""

    def __init__(self) -> None:
        self._held = resident_memory()

    def check(self) -> None:
        """To be called between pieces of work; it costs microseconds where nothing is to be done."""
        trim = _trim()
        if trim is not None and resident_memory() > self._held + GROWTH:
            trim(0)
            self._held = resident_memory()


@cache
def _trim() -> Any:
    """glibc's `malloc_trim`, or None where there is none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
