"""heedmap's sweep beside the other ways to attend: the same calls, in one process, taking turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from heedmap.errors import HeedmapError, InputError, UnsupportedError
from heedmap.experiments.methods import METHODS, WINDOW, Call, Method, Results
from heedmap.experiments.turns import BUSY, Timing, in_turn, load
from heedmap.machine import available_memory, describe_machine

WHERE = "bench"
MASKS = ("full", "causal", "window")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LENGTHS = tuple(2**power for power in range(7, 18))
"""128 to 131,072."""
HEAD_DIMS = (32, 64, 128)
SHARE = 0.7
"""Share of the memory that can be had now which one case may take."""
AGREE_AT = 200
"""Tokens of the calls on which every method is held to the textbook's form before anything is timed."""
PROBE_AT = 1024
"""Tokens from which the time of a longer first length is expected."""
FLOOR = {torch.float32: 1e-5, torch.bfloat16: 2**-7}
"""Smallest error budget, relative to the largest value; above it twice what the textbook's form has in that dtype."""


@dataclass(frozen=True)
class Cases:
    """What to time: every combination of length, head_dim, mask and dtype, for every method."""

    lengths: tuple[int, ...] = (1024, 4096, 8192)
    head_dims: tuple[int, ...] = (64,)
    masks: tuple[str, ...] = ("full", "causal")
    dtypes: tuple[str, ...] = ("fp32",)
    methods: tuple[str, ...] = tuple(method.name for method in METHODS)
    heads: int = 9
    rounds: int = 5
    seconds: float = 20.0
    """A method is left out at lengths where one run is expected to take longer."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, values, least, most in (
            ("lengths", self.lengths, 2, 2**21), ("head_dims", self.head_dims, 2, 512),
            ("heads", (self.heads,), 1, 1024), ("rounds", (self.rounds,), 1, 1000),
        ):  # fmt: skip
            for value in values:
                if not isinstance(value, int) or not least <= value <= most:
                    raise InputError(WHERE, expected=f"{name} from {least} to {most:,}", got=f"{value!r}")
        for name, values, known in (
            ("masks", self.masks, MASKS), ("dtypes", self.dtypes, tuple(DTYPES)),
            ("methods", self.methods, tuple(method.name for method in METHODS)),
        ):  # fmt: skip
            unknown = [value for value in values if value not in known]
            if unknown or not values:
                got = repr(unknown[0]) if unknown else "none"
                raise InputError(WHERE, expected=f"{name} among {'; '.join(known)}", got=got)
        if self.device not in ("cpu", "cuda") or (self.device == "cuda" and not torch.cuda.is_available()):
            got = f"{self.device!r}" if self.device != "cuda" else "cuda, which torch does not find here"
            raise InputError(WHERE, expected="device cpu, or cuda where there is one", got=got)
        if not 0 < self.seconds < float("inf"):
            raise InputError(WHERE, expected="a limit of seconds above 0", got=f"{self.seconds}")

    @property
    def chosen(self) -> tuple[Method, ...]:
        return tuple(method for method in METHODS if method.name in self.methods)


@dataclass(frozen=True)
class Row:
    """One method on one call; `status` is measured, too long, would not fit, or unsupported."""

    method: str
    gives: str
    n: int
    head_dim: int
    mask: str
    dtype: str
    status: str
    timing: Timing | None = None
    to_sdpa: float | None = None
    """Median over that of `sdpa` on the same call."""
    needs_bytes: int = 0
    """Of n×n tables, counted from shapes; where not even query, key and value would fit, of these if they are more."""
    why: str | None = None


def refuse_if_busy(busy: bool = False) -> None:
    """Raise HeedmapError where other work shares the cores, whose figures would not be worth reporting."""
    found = 0.0 if busy else load()
    if found > BUSY:
        raise HeedmapError(
            WHERE,
            expected="a quiet machine",
            got=f"{found:.1f} cores at work for others",
            do="wait until other work is done, or add --busy to see figures all the same",
        )


def run_bench(cases: Cases = Cases(), progress: Callable[[str], None] = lambda line: None) -> Iterator[Row]:
    """Rows as they are found; before anything is timed, each method is held to the textbook's form in float64.

    Raises HeedmapError where a method that can run gives other results than it should.
    """
    progress("checking that all agree")
    wrong = list(disagreements(cases))
    if wrong:
        raise HeedmapError(WHERE, expected="methods that agree with the textbook's form", got="; ".join(wrong))
    for dim, mask, dtype in itertools.product(cases.head_dims, cases.masks, cases.dtypes):
        before: dict[str, Row] = {}
        if min(cases.lengths) > PROBE_AT:  # what says whether the first length takes too long
            before = {row.method: row for row in _group(replace(cases, rounds=1), PROBE_AT, dim, mask, dtype, {})}
        for n in sorted(cases.lengths):
            progress(f"n = {n:,}, head_dim {dim}, {mask}, {dtype}")
            rows = list(_group(cases, n, dim, mask, dtype, before))
            before = {row.method: row for row in rows}
            yield from rows


def document(cases: Cases, rows: list[Row]) -> dict[str, Any]:
    """Everything as plain data, for JSON."""
    return {
        "benchmark": "bench",
        "cases": asdict(cases),
        "window": WINDOW,
        "rows": [asdict(row) for row in rows],
        "machine": describe_machine() | ({"gpu": torch.cuda.get_device_name()} if cases.device == "cuda" else {}),
    }


def disagreements(cases: Cases) -> Iterator[str]:
    """What is wrong with which method, by the error budget of its dtype; methods that cannot run are passed over."""
    for dim, mask, dtype in itertools.product(cases.head_dims, cases.masks, cases.dtypes):
        call = _call(cases.device, AGREE_AT, 2, dim, mask, DTYPES[dtype])
        oracle = _textbook(call, torch.float64)
        plain = _textbook(call, DTYPES[dtype])
        for method in cases.chosen:
            run = _prepared(method, call)
            found = {} if isinstance(run, str) else run()
            for name in sorted(oracle.keys() & found.keys()):
                error, allowed = _error(found[name], oracle[name]), 2 * _error(plain[name], oracle[name])
                floor = FLOOR[DTYPES[dtype]] * max(1.0, float(oracle[name].abs().max()))
                if not error <= max(allowed, floor):
                    yield f"{method.name} ({mask}, head_dim {dim}, {dtype}): {name} off by {error:.1e}"


def _textbook(call: Call, dtype: torch.dtype) -> Results:
    """Output, what keys receive, and entropy, from the whole weights in `dtype`."""
    query, key, value = (tensor[0].to(dtype) for tensor in (call.query, call.key, call.value))
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    allowed = call.dense_mask()
    if allowed is not None:
        scores.masked_fill_(~allowed, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    return {"output": weights @ value, "received": weights.sum(-2), "entropy": entropy}


def _error(found: torch.Tensor, oracle: torch.Tensor) -> float:
    return float((found.cpu().double() - oracle.cpu().double()).abs().max())


def _group(cases: Cases, n: int, dim: int, mask: str, dtype: str, before: dict[str, Row]) -> Iterator[Row]:
    """Every method on one call."""
    drawn = 3 * 4 * cases.heads * n * dim  # query, key and value in float32
    call = None
    if drawn <= SHARE * _room(cases.device):
        call = _call(cases.device, n, cases.heads, dim, mask, DTYPES[dtype])
    runs: dict[str, Callable[[], object]] = {}
    left_out: dict[str, Row] = {}
    for method in cases.chosen:
        needs = method.predicted_bytes(n, cases.heads, mask)
        row = partial(Row, method.name, method.gives, n, dim, mask, dtype, needs_bytes=needs)
        last = before.get(method.name)
        if last is not None and last.status == "unsupported":
            left_out[method.name] = row(status="unsupported", why=last.why)
        elif needs > SHARE * _room(cases.device):
            left_out[method.name] = row(status="would not fit")
        elif last is not None and _expected(last, n) > cases.seconds:
            left_out[method.name] = row(status="too long")
        elif call is None:
            left_out[method.name] = row(status="would not fit", needs_bytes=max(needs, drawn))
        else:
            prepared = _prepared(method, call)
            if isinstance(prepared, str):
                left_out[method.name] = row(status="unsupported", why=prepared)
            else:
                runs[method.name] = _finished(prepared) if cases.device == "cuda" else prepared
    timings = in_turn(runs, cases.rounds, 4 * cases.seconds) if runs else {}
    base = timings.get("sdpa")
    for method in cases.chosen:
        if method.name in left_out:
            yield left_out[method.name]
            continue
        timing = timings[method.name]
        needs = method.predicted_bytes(n, cases.heads, mask)
        ratio = None if base is None else timing.median / base.median
        yield Row(method.name, method.gives, n, dim, mask, dtype, "measured", timing, ratio, needs)


def _room(device: str) -> int:
    """Bytes that can be had now where the tensors are."""
    return torch.cuda.mem_get_info()[0] if device == "cuda" else available_memory()


def _finished(run: Callable[[], object]) -> Callable[[], object]:
    """A run that ends when the device has done its work, not when it has been given it."""

    def wait() -> None:
        run()
        torch.cuda.synchronize()

    return wait


def _expected(last: Row, n: int) -> float:
    """Seconds at n from those at the length before; what was too long stays so."""
    return float("inf") if last.timing is None else last.timing.median * (n / last.n) ** 2


def _call(device: str, n: int, heads: int, dim: int, mask: str, dtype: torch.dtype) -> Call:
    generator = torch.Generator().manual_seed(n)
    query, key, value = (torch.randn(1, heads, n, dim, generator=generator).to(device, dtype) for _ in range(3))
    return Call(query, key, value, mask)


def _prepared(method: Method, call: Call) -> Callable[[], Results] | str:
    """A method made ready for a call, run once where it compiles; or why it cannot."""
    from torch._dynamo.exc import TorchDynamoException

    try:
        run = method.prepare(call)
        if method.compiles:
            run()
    except UnsupportedError as error:
        return f"{error.expected}, got {error.got}"
    except (TorchDynamoException, RuntimeError, NotImplementedError) as error:
        if not method.compiles:
            raise
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    return run
