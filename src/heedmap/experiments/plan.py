"""What a text of n tokens will cost a model, predicted from its config before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heedmap.capture.positions import positions_of
from heedmap.experiments.calibration import BaseMemory, Speed, calibrate
from heedmap.experiments.operations import Shape, sweep_bytes
from heedmap.experiments.skeleton import Passed, Skeleton, check_length, config_of
from heedmap.machine import available_memory, describe_machine
from heedmap.measure import MAP_SIZE

AROUND = 60 * 10**6
"""Bytes of what a run needs beside model and activations: tokenizer, the writers of its tables."""
ROW_BYTES = 60
"""Bytes of the run's tables for each head and token, compressed."""
LONGEST = 131_072


@dataclass(frozen=True)
class Cost:
    """What one length will cost; bytes of memory are those of the whole process at its peak."""

    tokens: int
    cells: int
    """Entries of all heads' matrices, of all layers and texts."""
    attentions_bytes: int
    """`output_attentions`: all matrices at once, in the model's dtype."""
    attentions_peak_bytes: int
    sweep_peak_bytes: int
    """Of `heedmap look`."""
    run_bytes: int
    """The run's folder on disk, with its inputs."""
    product_operations: int
    """Of matrix products outside attention."""
    attention_operations: int
    seconds: float
    """Of the forward pass with all default statistics, here; loading comes on top."""
    attentions_seconds: float
    attentions_fit: bool
    sweep_fits: bool


@dataclass(frozen=True)
class Plan:
    """A model, this machine, and the cost of each length; `tokens` is the length asked for."""

    model: str
    architecture: str
    parameters: int
    weights_bytes: int
    positions: int | None
    layers: int
    heads: int
    tokens: int
    batch: int
    available_bytes: int
    costs: tuple[Cost, ...]
    speed: Speed
    machine: dict[str, Any]

    @property
    def cost(self) -> Cost:
        return next(cost for cost in self.costs if cost.tokens == self.tokens)

    def document(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return asdict(self) | {"costs": [asdict(cost) for cost in self.costs]}


def run_plan(model: str, tokens: int, batch: int = 1, lengths: Sequence[int] | None = None) -> Plan:
    """Predict memory and time of `tokens` tokens, and of other lengths beside them.

    Shapes and activations are counted on a model without weights; rates and the memory of an empty process are
    measured here in about two seconds.

    Args:
        model: a packaged model's name, a folder, a config.json, a GGUF file or a hub id. Its weights are not read.
        lengths: the other lengths; by default powers of two up to the model's positions.

    Raises:
        InputError: no such length in this model.
        ModelError, UnsupportedError: a model without a config that can be built and counted.
    """
    config, kind, gguf, name = config_of(model)
    positions = positions_of(config)
    check_length(tokens, batch, positions, name)
    with BaseMemory() as empty:
        skeleton = Skeleton(config, kind, name)
        wanted = sorted({tokens, *(powers(positions, tokens) if lengths is None else lengths)})
        passes = {n: skeleton.forward(n, batch, sweep_bytes) for n in wanted}
        plain = {n: skeleton.forward(n, batch, lambda shape: 0) for n in wanted}
        first = passes[tokens].attended[0].shape
        base = empty.bytes()
    speed = calibrate(first, max(first.heads * first.head_dim, 64))
    available = available_memory()
    file_bytes = 0 if gguf is None else gguf.stat().st_size
    held = base + AROUND + skeleton.weights + file_bytes
    loading = base + skeleton.weights + file_bytes + (0 if gguf is None else 2 * skeleton.largest)
    costs = [_cost(n, passes[n], plain[n], held, loading, skeleton.itemsize, speed, available) for n in wanted]
    return Plan(
        model=name,
        architecture=skeleton.kind,
        parameters=skeleton.parameters,
        weights_bytes=skeleton.weights,
        positions=positions,
        layers=len(passes[tokens].attended),
        heads=sum(call.shape.heads for call in passes[tokens].attended),
        tokens=tokens,
        batch=batch,
        available_bytes=available,
        costs=tuple(costs),
        speed=speed,
        machine=describe_machine(),
    )


def powers(positions: int | None, tokens: int) -> list[int]:
    """Powers of two for choosing, from 128 to the model's positions (or well beyond the length asked for)."""
    most = min(positions or max(8 * tokens, 8192), LONGEST)
    return [2**power for power in range(7, 18) if 2**power <= most]


def _cost(
    n: int, passed: Passed, plain: Passed, held: int, loading: int, itemsize: int, speed: Speed, available: int
) -> Cost:
    cells = sum(call.cells for call in passed.attended)
    largest = max(call.cells for call in passed.attended)
    visited = sum(call.visited for call in passed.attended)
    attention = sum(2 * call.cells * (call.shape.head_dim + call.shape.of_values) for call in passed.attended)
    products = passed.operations / speed.products_per_second
    attentions_peak = held + plain.peak_bytes + cells * itemsize + 4 * largest
    sweep_peak = max(loading, held + passed.peak_bytes)
    return Cost(
        tokens=n,
        cells=cells,
        attentions_bytes=cells * itemsize,
        attentions_peak_bytes=max(loading, attentions_peak),
        sweep_peak_bytes=sweep_peak,
        run_bytes=sum(run_bytes(call.shape) for call in passed.attended),
        product_operations=passed.operations,
        attention_operations=attention,
        seconds=products + visited * speed.sweep_cell_seconds,
        attentions_seconds=products + cells * speed.eager_cell_seconds,
        attentions_fit=attentions_peak <= available,
        sweep_fits=sweep_peak <= available,
    )


def run_bytes(shape: Shape) -> int:
    """One layer of a run's folder: pooled maps, query and key with row maximum and sum, rows of the tables."""
    side = min(shape.n, MAP_SIZE)
    maps = 4 * side * side * (2 * shape.heads + 1)
    inputs = shape.itemsize * shape.n * shape.head_dim * (shape.heads + shape.of_keys) + 8 * shape.n * shape.heads
    return shape.batch * (maps + inputs + ROW_BYTES * shape.n * shape.heads)
