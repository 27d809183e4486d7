"""One measurement in a process of its own: `python -m heedmap.experiments.point '{"method": "sdpa", "n": 1024, …}'`.

A fresh process has an honest peak of memory: nothing that another measurement left behind. Its last line of output is
one JSON document; what goes wrong in it is told there too.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from heedmap.errors import UnsupportedError
from heedmap.experiments.products import measure_products
from heedmap.machine import forget_peak, limit_growth, peak_memory, resident_memory
from heedmap.measure import attend

PRODUCT = "product"
"""The method that measures this machine's matrix product instead of attention."""
LEAST_RUNS, MOST_RUNS = 3, 200
WARM = 256
"""Tokens of the run that is not counted: from here on the matrix library runs the code that it runs at any length,
whose pages (4 MB of a freshly installed one) would else be counted as the method's memory."""


@dataclass(frozen=True)
class Order:
    """What to measure: a method at one length, for about `seconds`, within `memory` bytes beyond the start."""

    method: str
    n: int
    heads: int
    head_dim: int
    seconds: float
    memory: int
    most_seconds: float = 0.0
    """Three runs are made even if they take longer than `seconds`, as long as they stay within these."""


def measure_point(order: Order) -> dict[str, Any]:
    """Bytes that the first run adds to what the process held, and the median of the runs in seconds."""
    limit_growth(order.memory)
    torch.manual_seed(0)
    if order.method == PRODUCT:
        found = measure_products(order.head_dim, order.seconds)
        return {"status": "measured", "products": found}
    small = _inputs(WARM, order)
    work = _work(order.method)
    work(*small)  # libraries set up their threads and rooms, and read in their code, before anything is counted
    query, key, value = _inputs(order.n, order)
    held = resident_memory()
    forget_peak()
    first = _timed(work, query, key, value)
    added = max(peak_memory() - held, 0)
    taken = [first, *repeated(lambda: _timed(work, query, key, value), first, order.seconds, order.most_seconds)]
    return {
        "status": "measured",
        "bytes": added,
        "seconds": statistics.median(taken),
        "fastest": min(taken),
        "repeats": len(taken),
    }


def repeated(run: Callable[[], float], first: float, seconds: float, most: float) -> list[float]:
    """Seconds of further runs, until all add up to `seconds`, and of two at least as long as all stay within `most`."""
    taken = [first]
    while len(taken) < MOST_RUNS:
        spent = sum(taken)
        enough = spent >= seconds and len(taken) >= LEAST_RUNS
        if enough or spent + min(taken) > max(seconds, most):
            break
        taken.append(run())
    return taken[1:]


def eager(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention as a textbook's three lines, with all its weights; `allowed` is True where a pair may attend."""
    weights = torch.softmax(eager_scores(query, key, allowed), dim=-1)
    return weights @ value, weights


def eager_scores(query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
    """What `eager` takes the softmax of."""
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    return scores if allowed is None else scores.masked_fill_(~allowed, -torch.inf)


def _work(method: str) -> Callable[[Tensor, Tensor, Tensor], object]:
    match method:
        case "eager":
            return eager
        case "sdpa":
            return functional.scaled_dot_product_attention
        case _:
            return lambda query, key, value: attend(query, key, value, kernel=method)


def _inputs(n: int, order: Order) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (torch.randn(1, order.heads, n, order.head_dim) for _ in range(3))
    return query, key, value


def _timed(work: Callable[[Tensor, Tensor, Tensor], object], *inputs: Tensor) -> float:
    began = time.perf_counter()
    work(*inputs)
    return time.perf_counter() - began


@torch.no_grad()
def main(text: str) -> int:
    """Measure the order given as JSON and print the result as JSON; only a defect leaves another exit code than 0."""
    order = Order(**json.loads(text))
    try:
        found = measure_point(order)
    except UnsupportedError as error:
        found = {"status": "unsupported", "why": str(error)}
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "alloc" not in str(error) and "memory" not in str(error):
            raise
        found = {"status": "did not fit", "why": f"memory ran out at {order.memory:,} bytes"}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
