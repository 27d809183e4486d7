"""Why n²: wall time and peak memory of three ways to attend, over lengths, each point in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import HeedmapError, InputError
from heedmap.experiments.intervals import PowerLaw, fit_line, fit_power
from heedmap.experiments.operations import Shape, eager_bytes, sdpa_bytes, sweep_bytes
from heedmap.experiments.point import PRODUCT, Order
from heedmap.kernels.plan import UNIT_ROWS
from heedmap.machine import available_memory, describe_machine
from heedmap.measure import kernels_for

WHERE = "complexity"
MEMORY_NOISE = 2**20
"""Bytes by which two runs of one process may differ: pages, thread stacks."""
PROCESS_BYTES = 600 * 2**20
"""What a process with torch holds before it begins, kept free on top of what is predicted."""
MOST_SECONDS = 1_000_000
SHARE = 0.9
"""Share of the memory that can be had now which a measurement may take."""


def methods() -> tuple[str, ...]:
    """Weights kept, torch's own fused attention, and each kernel of heedmap's sweep that can run here."""
    one = torch.zeros(1, 1, 1, 1)
    return ("eager", "sdpa", *kernels_for(AttentionInputs(one, one)))


@dataclass(frozen=True)
class Settings:
    """Lengths from `shortest`, doubling, to `longest`, until a run takes over `seconds` or would not fit in memory."""

    shortest: int = 512
    longest: int = 65_536
    per_doubling: int = 2
    """Lengths in each doubling; more of them make the exponents surer. Those between powers are rounded to 32."""
    heads: int = 1
    head_dim: int = 64
    fit_from: int = 4096
    """Exponents are fitted to lengths from here on: below, fixed costs rule, and a sweep's strip still grows with n."""
    seconds: float = 10.0
    """A length whose run is expected to take longer is left out; three runs are made where three fit in here."""
    memory: int | None = None
    """Bytes that one measurement may take; what the machine has free unless given."""
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least, most in (("shortest", 1, 2**24), ("longest", 1, 2**24), ("heads", 1, 1024),
                                  ("head_dim", 1, 4096), ("per_doubling", 1, 16), ("fit_from", 1, 2**24)):  # fmt: skip
            number = getattr(self, name)
            if not isinstance(number, int) or not least <= number <= most:
                raise InputError(WHERE, expected=f"{name} from {least} to {most:,}", got=f"{number!r}")
        if self.longest < self.shortest:
            raise InputError(WHERE, expected="longest of at least shortest", got=f"{self.longest} < {self.shortest}")
        if not 0 < self.seconds <= MOST_SECONDS:
            raise InputError(
                WHERE, expected=f"a limit of seconds above 0, to {MOST_SECONDS:,}", got=f"{self.seconds:g}"
            )
        if self.memory is not None and not 2**20 <= self.memory <= 2**60:
            raise InputError(WHERE, expected="a limit of memory from 1 MB to 1 EB", got=f"{self.memory:.3g} bytes")
        unknown = [name for name in self.methods if name not in methods()]
        if unknown:
            raise InputError(WHERE, expected=f"methods among {', '.join(methods())}", got=repr(unknown[0]))

    @property
    def lengths(self) -> tuple[int, ...]:
        count = math.floor(math.log2(self.longest / self.shortest) * self.per_doubling + 1e-9) + 1
        found = [self.shortest * 2 ** (step / self.per_doubling) for step in range(count)]
        between = (step % self.per_doubling != 0 for step in range(count))
        return tuple(dict.fromkeys(_even(n) if odd else round(n) for n, odd in zip(found, between, strict=True)))

    @property
    def chosen(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.methods)) or methods()


@dataclass(frozen=True)
class Point:
    """One method at one length; `status` is measured, too long, would not fit, did not fit, or unsupported."""

    method: str
    n: int
    cells: int
    status: str
    seconds: float | None
    """Median of the runs."""
    fastest: float | None
    bytes: int | None
    """Peak beyond what the process held with query, key and value in place."""
    repeats: int
    predicted_bytes: int
    predicted_seconds: float | None
    product_operations: int
    softmax_operations: int
    operations_per_second: float | None
    """Of the two matrix products."""
    times_product: float | None
    """The same in units of torch's fastest matrix product here; above 1 where a method's own product is faster."""
    why: str | None = None


@dataclass(frozen=True)
class Exponent:
    """The fitted law of one method's seconds or bytes: fixed + factor · n^exponent."""

    method: str
    quantity: str
    law: PowerLaw


@dataclass(frozen=True)
class Complexity:
    """The experiment: points, exponents, and this machine with the products of matrices that torch makes on it."""

    settings: Settings
    points: tuple[Point, ...]
    exponents: tuple[Exponent, ...]
    products: tuple[dict[str, Any], ...]
    """Shapes of matrix products, and the operations a second of each."""
    machine: dict[str, Any]
    memory_limit: int

    @property
    def product_operations_per_second(self) -> float:
        """Of the fastest of the products."""
        return max(product["operations_per_second"] for product in self.products)

    def exponent(self, method: str, quantity: str) -> PowerLaw | None:
        return next((e.law for e in self.exponents if (e.method, e.quantity) == (method, quantity)), None)

    def document(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return {
            "experiment": "complexity",
            "machine": self.machine,
            "settings": asdict(self.settings) | {"methods": list(self.settings.chosen)},
            "memory_limit": self.memory_limit,
            "product_operations_per_second": self.product_operations_per_second,
            "products": list(self.products),
            "points": [asdict(point) for point in self.points],
            "exponents": [
                {
                    "method": fit.method, "quantity": fit.quantity, "exponent": fit.law.exponent.mean,
                    "low": fit.law.exponent.low, "high": fit.law.exponent.high, "fixed": fit.law.fixed,
                    "factor": fit.law.factor, "points": fit.law.points,
                }
                for fit in self.exponents
            ],
        }  # fmt: skip


@dataclass
class Measured:
    """What was measured so far; grows while it is made."""

    settings: Settings
    memory_limit: int = 0
    products: tuple[dict[str, Any], ...] = ()
    points: list[Point] = field(default_factory=list)

    def fitted(self) -> Complexity:
        """All of it, with the exponents of what there is."""
        fits = [
            Exponent(method, quantity, law)
            for method in self.settings.chosen
            for quantity in ("seconds", "bytes")
            if (law := fitted(self.points, self.settings.fit_from, method, quantity)) is not None
        ]
        return Complexity(
            self.settings, tuple(self.points), tuple(fits), self.products, describe_machine(), self.memory_limit
        )


def run_complexity(
    settings: Settings = Settings(),
    progress: Callable[[str], None] = lambda line: None,
    into: Measured | None = None,
) -> Complexity:
    """Measure every method at every length; see `Settings` for where it stops.

    A point that is predicted not to fit is skipped and says so with its size. A process that outgrows its room fails
    by itself, one that runs too long is ended: the machine is never filled.

    Args:
        progress: called with what is measured next.
        into: gets what is found as it is found, so that an interruption keeps it.
    """
    limit = settings.memory if settings.memory is not None else int(available_memory() * SHARE)
    measured = Measured(settings) if into is None else into
    measured.memory_limit = limit
    progress("the matrix product of this machine")
    order = Order(PRODUCT, 0, 1, settings.head_dim, 2.5, PROCESS_BYTES)  # in its own room: it is no method's memory
    product = _run(order, 120)
    if product["status"] != "measured":
        raise HeedmapError(
            WHERE,
            expected="a matrix product of this machine to compare with",
            got=product["status"],
            do="try again when the machine has more free memory and less to do",
        )
    measured.products = tuple(product["products"])
    fastest = max(entry["operations_per_second"] for entry in measured.products)
    for method in settings.chosen:
        last: Point | None = None
        for n in settings.lengths:
            progress(f"{method} at n = {n:,}")
            last = _point(settings, method, n, last, limit, fastest)
            measured.points.append(last)
    return measured.fitted()


def predicted_bytes(method: str, shape: Shape) -> int:
    """What a method takes beyond its inputs, from shapes alone."""
    counted = {"eager": eager_bytes, "sdpa": sdpa_bytes}.get(method)
    return sweep_bytes(shape, kernel=method) if counted is None else counted(shape)


def _point(settings: Settings, method: str, n: int, before: Point | None, limit: int, product: float) -> Point:
    shape = Shape(n, settings.heads, settings.head_dim)
    needed = predicted_bytes(method, shape)
    expected = None
    if before is not None:
        known = before.seconds if before.seconds is not None else before.predicted_seconds
        expected = None if known is None else known * (n / before.n) ** 2
    found: dict[str, Any]
    if before is not None and before.status == "unsupported":
        found = {"status": "unsupported", "why": before.why}
    elif needed + shape.input_bytes + PROCESS_BYTES > min(limit, int(available_memory() * SHARE)):
        found = {"status": "would not fit"}
    elif (expected is not None and expected > settings.seconds) or (before and before.status == "too long"):
        found = {"status": "too long"}
    else:
        aim = min(1.0, settings.seconds)
        order = Order(method, n, settings.heads, settings.head_dim, aim, limit, settings.seconds)
        found = _run(order, settings.seconds * 3 + 30)
    seconds = found.get("seconds")
    rate = None if seconds is None else shape.product_operations / seconds
    return Point(
        method=method,
        n=n,
        cells=shape.cells,
        status=found["status"],
        seconds=seconds,
        fastest=found.get("fastest"),
        bytes=found.get("bytes"),
        repeats=found.get("repeats", 0),
        predicted_bytes=needed,
        predicted_seconds=expected,
        product_operations=shape.product_operations,
        softmax_operations=shape.softmax_operations,
        operations_per_second=rate,
        times_product=None if rate is None else rate / product,
        why=found.get("why"),
    )


def _run(order: Order, seconds: float) -> dict[str, Any]:
    """Carry out an order in a fresh process, which is ended when it takes too long."""
    command = [sys.executable, "-m", "heedmap.experiments.point", json.dumps(asdict(order))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"status": "too long", "why": f"ended after {seconds:g} s"}
    if done.returncode < 0:
        return {"status": "did not fit", "why": f"the system ended it (signal {-done.returncode})"}
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise HeedmapError(WHERE, expected=f"a measurement of {order.method} at n = {order.n}", got=reason)
    return json.loads(lines[-1])


def fitted(points: Sequence[Point], fit_from: int, method: str, quantity: str) -> PowerLaw | None:
    """The law of one method's seconds or bytes over the lengths from `fit_from` on.

    Bytes are fitted with a fixed part, which is what a method holds whatever n is. Seconds have none at such lengths
    (a call of few tokens takes under a millisecond), but a machine now and then takes a break, so they are fitted by
    the median of slopes, which a slow point does not move.
    """
    measured = [(p.n, getattr(p, quantity)) for p in points if p.method == method and p.n >= fit_from]
    known = [(n, value) for n, value in measured if value is not None and value > 0]
    lengths, values = [n for n, _ in known], [value for _, value in known]
    return fit_line(lengths, values) if quantity == "seconds" else fit_power(lengths, values, float(MEMORY_NOISE))


def _even(n: float) -> int:
    """A length between two powers, of whole units of 32 rows where it is long enough: none is slower for being odd."""
    return round(n / UNIT_ROWS) * UNIT_ROWS if n >= 16 * UNIT_ROWS else round(n)
