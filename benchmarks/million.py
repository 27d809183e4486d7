"""One head over a million tokens: a causal matrix of a trillion cells, all default statistics, on this machine.

    python benchmarks/million.py [--length 1000000] [--record]

The call is swept part by part, as `measure(rows=…)` allows, so that progress can be told; the parts merge exactly.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time

import harness
import torch

from heedmap import masks, measure
from heedmap.experiments.products import measure_products
from heedmap.machine import peak_memory
from heedmap.measurements import Measurements

STRIP_BYTES = 400 * 2**20


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--length", type=int, default=1_000_000)
    options.add_argument("--parts", type=int, default=50)
    given = options.parse_args()
    harness.ready()
    n, dim = given.length, 64
    peak = max(shape["operations_per_second"] for shape in measure_products(dim, seconds=2.0))
    query, key = torch.randn(1, 1, n, dim), torch.randn(1, 1, n, dim)
    edges = [n * part // given.parts for part in range(given.parts + 1)]
    began = time.perf_counter()
    parts: list[Measurements] = []
    for start, stop in itertools.pairwise(edges):
        part = measure(query, key, mask=masks.causal(), rows=(start, stop), strip_bytes=STRIP_BYTES)
        parts = [functools.reduce(Measurements.merge, [*parts, part])]
        seconds = time.perf_counter() - began
        done = (stop / n) ** 2
        print(f"{stop:9,} rows, {seconds:6.0f} s, about {seconds / done - seconds:6.0f} s to go", file=sys.stderr)
    found = parts[0]
    seconds = time.perf_counter() - began
    operations = 2 * dim * n * (n + 1) // 2
    mass = float(found["received"].sum())
    print(f"{n:,} tokens, {n * n:,} cells, half of them visible: {seconds:.0f} s, {peak_memory() / 1e9:.2f} GB at most")
    print(f"{operations / seconds / 1e9:.0f} GFLOP/s of Q·Kᵀ; torch's matrix product peaks at {peak / 1e9:.0f} GFLOP/s")
    print(f"what all keys receive: {mass:.6f} of {n:,}; mean entropy {found['entropy'].mean():.4f} nats")
    harness.finish(
        {
            "benchmark": "million",
            "length": n,
            "seconds": seconds,
            "peak_bytes": peak_memory(),
            "kernel": found.kernel,
            "operations_per_second": operations / seconds,
            "product_operations_per_second": peak,
            "received": mass,
        }
    )


if __name__ == "__main__":
    main()
