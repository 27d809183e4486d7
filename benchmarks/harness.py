"""What every benchmark shares: a quiet machine, cases that take turns, medians, one JSON document as the last line."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

BUSY = 0.5
"""Load of the last minute, in processes besides this one, above which figures would not be worth reporting."""


def refuse_if_busy() -> None:
    """Exit with a word of explanation where other work would share the cores."""
    load = os.getloadavg()[0]
    if load > BUSY and "--busy" not in sys.argv:
        sys.exit(f"[benchmark] expected a quiet machine, got a load of {load:.1f}; wait, or add --busy to see figures")


def in_turn(cases: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of each case: one unmeasured round, then `rounds` in which the cases take turns."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, run in cases.items():
            began = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - began)
    return {
        name: {"median": statistics.median(values), "least": min(values), "most": max(values)}
        for name, values in times.items()
    }


def finish(document: dict[str, Any]) -> None:
    """Print the document and the machine it was made on as one line."""
    import torch

    machine = {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    print(json.dumps(document | {"machine": machine}, sort_keys=True))
