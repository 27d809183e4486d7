"""Give freed memory back to the system between layers of a long text."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

LONG = 1024
"""Query rows from which what a layer leaves behind is worth the call."""


def give_back(rows: int) -> None:
    """Return freed memory of a layer with this many query rows to the system.

    glibc keeps it: tables that a layer needed for a moment would stay with the process until it ends, about 20 MB a
    layer at 8,192 tokens. Elsewhere the allocator does this by itself, and nothing happens.
    """
    trim = _trim()
    if trim is not None and rows >= LONG:
        trim(0)


@cache
def _trim() -> Any:
    """glibc's `malloc_trim`, or None where there is none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
