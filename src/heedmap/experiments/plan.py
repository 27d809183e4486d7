"""What a text of n tokens will cost a model, predicted from its config before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from heedmap.capture import converted
from heedmap.capture.positions import positions_of
from heedmap.experiments.calibration import Base, BaseMemory, Speed, calibrate
from heedmap.experiments.operations import Shape, sweep_bytes
from heedmap.experiments.skeleton import Passed, Skeleton, check_length, config_of
from heedmap.machine import available_memory, describe_machine
from heedmap.measure import MAP_SIZE

VOCABULARY_BYTES = 800
"""Bytes of a tokenizer for each entry of its vocabulary (measured: 560 with WordPiece, 830 with merges of bytes)."""
TOKEN_BYTES = 800
"""Bytes of what is kept of each token: its text, place and word (measured on 11,000 tokens)."""
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

    Shapes and activations are counted on a model without weights. Measured here, in about two seconds, are rates, and
    what a process holds that looks at next to nothing. On top of that come the tokenizer, by its vocabulary; the
    weights, of which pages of the embeddings that no token reads stay in their file; of a GGUF file that was not
    converted yet, what reading it leaves behind, as much as the file; the tokens; activations with a layer's sweep.

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
        plain = {n: skeleton.forward(n, batch) for n in wanted}
        first = passes[tokens].attended[0].shape
        base = empty.measured()
    speed = calibrate(first, max(first.heads * first.head_dim, 64))
    available = available_memory()
    room = Room(skeleton, base, None if gguf is None or _is_converted(gguf) else gguf.stat().st_size)
    costs = [_cost(n, batch, passes[n], plain[n], room, speed, available) for n in wanted]
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


def _is_converted(gguf: Path) -> bool:
    return converted.is_whole(converted.copy_of(gguf, torch.float32))


class Room:
    """What a process holds of a model and a text, without activations."""

    def __init__(self, skeleton: Skeleton, base: Base, gguf_bytes: int | None) -> None:
        self._skeleton = skeleton
        self._mapped = gguf_bytes is None
        self._model = skeleton.weights + VOCABULARY_BYTES * skeleton.vocabulary + (gguf_bytes or 0)
        self._base = base
        self.itemsize = skeleton.itemsize

    def loading(self) -> int:
        """At most, while the model is loaded: of a GGUF file one tensor at a time is held packed and unpacked."""
        unread = self._skeleton.unread_bytes(0) if self._mapped else -2 * self._skeleton.largest
        return self._base.imported + self._model - unread

    def held(self, n: int, batch: int) -> int:
        """While it runs over `batch` texts of n tokens."""
        unread = self._skeleton.unread_bytes(n * batch) if self._mapped else 0
        return self._base.looked + self._model - unread + TOKEN_BYTES * n * batch


def _cost(n: int, batch: int, passed: Passed, plain: Passed, room: Room, speed: Speed, available: int) -> Cost:
    cells = sum(call.cells for call in passed.attended)
    largest = max(call.cells for call in passed.attended)
    visited = sum(call.visited for call in passed.attended)
    attention = sum(2 * call.cells * (call.shape.head_dim + call.shape.of_values) for call in passed.attended)
    products = passed.operations / speed.products_per_second
    held, loading, itemsize = room.held(n, batch), room.loading(), room.itemsize
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
