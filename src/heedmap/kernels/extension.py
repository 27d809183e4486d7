"""The compiled part, where heedmap was installed with it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

from heedmap.statistics.strip import Segment


@cache
def extension() -> ModuleType | None:
    """The compiled pass; None where heedmap was installed without it. One that does not load raises ImportError."""
    try:
        return import_module("heedmap._native")
    except ModuleNotFoundError as missing:
        if missing.name != "heedmap._native":
            raise
        return None


@cache
def openmp_parallel() -> int:
    """Address of `GOMP_parallel` in the OpenMP runtime that torch has loaded, or 0 where there is none.

    Threads of a matrix product spin for a while when it is done, waiting for the next: a second team of threads would
    have to share the cores with them. So the pass borrows theirs.
    """
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value or 0
    except (AttributeError, OSError):  # another OpenMP runtime, or none
        return 0


def hidden(segments: Sequence[Segment], key_start: int) -> list[tuple[int, Tensor]]:
    """Segments of a strip as the extension takes them: first key within the strip, and which pairs are allowed."""
    return [(segment.start - key_start, side_by_side(segment.allowed)) for segment in segments]


def side_by_side(table: Tensor) -> Tensor:
    """The same, numbers of a row next to one another in memory, as the extension reads them."""
    return table if table.stride(-1) == 1 or table.shape[-1] == 1 else table.contiguous()
