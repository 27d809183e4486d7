"""What every benchmark shares: a green tree, a quiet machine, cases that take turns, one JSON document as last line."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import green

from heedmap.errors import HeedmapError
from heedmap.experiments import turns
from heedmap.experiments.bench import refuse_if_busy
from heedmap.kernels.extension import extension
from heedmap.machine import describe_machine

RECORDS = Path(__file__).resolve().parent / "record"


def ready() -> None:
    """Exit with a word of explanation where other work shares the cores, or where the code has not passed its tests."""
    if "--busy" in sys.argv:  # figures to try a benchmark with, not to report
        return
    if not green.is_green():
        sys.exit("[benchmark] expected code that has passed its tests, got changes since; run make test, or add --busy")
    try:
        refuse_if_busy()
    except HeedmapError as error:
        sys.exit(str(error))


def in_turn(cases: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of each case: one unmeasured round, then `rounds` in which the cases take turns."""
    return {name: asdict(timing) for name, timing in turns.in_turn(cases, rounds).items()}


def child(code: str, *arguments: object) -> dict[str, Any]:
    """What Python code prints as its last line, a JSON document, in a process of its own: an honest peak of memory."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def finish(document: dict[str, Any]) -> None:
    """Print the document and the machine it was made on as one line; with --record also keep it for the tables."""
    import torch

    module = extension()
    machine = describe_machine() | {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "instructions": None if module is None else module.instruction_sets()[0],
    }
    line = json.dumps(document | {"machine": machine}, sort_keys=True)
    if "--record" in sys.argv and "--busy" not in sys.argv:
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"{document['benchmark']}.json").write_text(line + "\n")
    print(line)


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--busy", action="store_true", help="run although other work shares the cores; to try it out")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/benchmarks.md")
    return parser


def count(text: str) -> int:
    """A whole number from 1, as an option's type."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text}")
    return number


def text_file(name: str) -> str:
    """The name of a file that is there, as an option's type."""
    if not Path(name).is_file():
        raise argparse.ArgumentTypeError(f"expected a text, got no file {name!r}")
    return name
