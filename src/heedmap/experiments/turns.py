"""Timing cases that take turns, so that what slows the machine for a while slows all of them."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.5
"""Cores at work for others, above which figures would not be worth reporting."""
WATCHED = 2.0
"""Seconds over which that is seen."""
_TIMES = Path("/proc/stat")


@dataclass(frozen=True)
class Timing:
    """Seconds of one case over `rounds` rounds."""

    median: float
    least: float
    most: float
    rounds: int


def load(seconds: float = WATCHED) -> float:
    """Cores that are at work while this process only waits.

    Where the system does not tell, the processes that wanted a core over the last minute, this one's among them.
    """
    if not _TIMES.exists():
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    before = _idle_and_all()
    time.sleep(seconds)
    idle, every = (after - first for after, first in zip(_idle_and_all(), before, strict=True))
    return (os.cpu_count() or 1) * (1 - idle / every) if every > 0 else 0.0


def _idle_and_all() -> tuple[int, int]:
    """Ticks that all cores have idled, waiting for disks included, and ticks there were."""
    times = [int(field) for field in _TIMES.read_text().splitlines()[0].split()[1:9]]
    return times[3] + times[4], sum(times)


def in_turn(cases: Mapping[str, Callable[[], object]], rounds: int, seconds: float = math.inf) -> dict[str, Timing]:
    """One unmeasured round, then `rounds` in which the cases take turns; no further round once `seconds` are over.

    Where not even one further round would fit into `seconds`, the first one is what is reported.
    """
    began = time.perf_counter()
    first = {name: [_timed(run)] for name, run in cases.items()}
    one = time.perf_counter() - began
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        if time.perf_counter() - began + one > seconds:
            break
        for name, run in cases.items():
            times[name].append(_timed(run))
    return {name: _timing(values or first[name]) for name, values in times.items()}


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _timing(values: list[float]) -> Timing:
    return Timing(statistics.median(values), min(values), max(values), len(values))
