"""What every benchmark shares: a green tree, a quiet machine, cases that take turns, one JSON document as last line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import green

from heedmap.errors import HeedmapError
from heedmap.experiments import turns
from heedmap.experiments.bench import refuse_if_busy as refuse
from heedmap.machine import describe_machine


def ready() -> None:
    """Exit with a word of explanation where other work shares the cores, or where the code has not passed its tests."""
    if "--busy" in sys.argv:  # figures to try a benchmark with, not to report
        return
    if not green.is_green():
        sys.exit("[benchmark] expected code that has passed its tests, got changes since; run make test, or add --busy")
    refuse_if_busy()


def refuse_if_busy() -> None:
    """Exit where other work shares the cores."""
    try:
        refuse("--busy" in sys.argv)
    except HeedmapError as error:
        sys.exit(str(error))


def in_turn(cases: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of each case: one unmeasured round, then `rounds` in which the cases take turns."""
    return {name: asdict(timing) for name, timing in turns.in_turn(cases, rounds).items()}


def finish(document: dict[str, Any]) -> None:
    """Print the document and the machine it was made on as one line."""
    import torch

    machine = describe_machine() | {"capability": torch.backends.cpu.get_cpu_capability()}
    print(json.dumps(document | {"machine": machine}, sort_keys=True))
