"""How fast this machine is, and what a process of heedmap holds before any model: measured in about two seconds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from heedmap.errors import HeedmapError
from heedmap.experiments.operations import Shape
from heedmap.experiments.point import eager
from heedmap.measure import attend

CALIBRATION_LENGTH = 1024
MOST_HEADS, MOST_WIDTH = 32, 2048
"""Rates are measured on no more than this: they hardly change beyond, and a large model would take gigabytes."""
_LOOK = "import heedmap.cli.look, heedmap.cli.report; from heedmap.experiments.empty_look import main; main()"


@dataclass(frozen=True)
class Speed:
    """Rates of this machine for one model's shapes."""

    products_per_second: float
    """Operations of a matrix product of the model's width."""
    sweep_cell_seconds: float
    """Seconds for each entry of a head's matrix, with all default statistics."""
    eager_cell_seconds: float


@dataclass(frozen=True)
class Base:
    """Bytes of a process of `heedmap look` besides its model and text."""

    imported: int
    """Once its libraries are imported."""
    looked: int
    """At most, while it looks at next to nothing (`heedmap.experiments.empty_look`)."""


class BaseMemory:
    """A process that does what `heedmap look` does with next to nothing, and tells what it holds; meanwhile we go on.

    Used with `with`, which ends the process when something goes wrong meanwhile.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LOOK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> BaseMemory:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.stdout is not None and not self._process.stdout.closed:  # nobody has asked for its answer
            self._process.kill()
            self._process.communicate()

    def measured(self) -> Base:
        """What it found, once it is done."""
        told, problems = self._process.communicate()
        if self._process.returncode != 0:
            reason = (problems.strip().splitlines() or ["no output"])[-1]
            raise HeedmapError("plan", expected="a process that looks at a few letters", got=reason)
        return Base(**json.loads(told.splitlines()[-1]))


@torch.no_grad()
def calibrate(shape: Shape, width: int, seconds: float = 1.8) -> Speed:
    """Measure the rates for attention of one layer's shape and products of `width` columns, both cut to a size at
    which they fit anywhere."""
    rows, n, width = 512, min(CALIBRATION_LENGTH, max(shape.n, 16)), min(width, MOST_WIDTH)
    left, right = torch.randn(rows, width), torch.randn(width, 4 * width)
    group = min(shape.heads // shape.of_keys, MOST_HEADS)
    key_heads = min(shape.of_keys, MOST_HEADS // group)
    heads = group * key_heads
    query = torch.randn(1, heads, n, shape.head_dim)
    key = torch.randn(1, key_heads, n, shape.head_dim)
    value = torch.randn(1, key_heads, n, shape.of_values)
    keys, values = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    cells = heads * n * n
    product = _fastest(lambda: torch.mm(left, right), 0.25 * seconds)
    sweep = _fastest(lambda: attend(query, key, value), 0.5 * seconds)
    kept = _fastest(lambda: eager(query, keys, values), 0.25 * seconds)
    return Speed(2 * rows * width * 4 * width / product, sweep / cells, kept / cells)


def _fastest(work: Callable[[], object], seconds: float) -> float:
    work()
    found: list[float] = []
    began = time.perf_counter()
    while not found or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)
