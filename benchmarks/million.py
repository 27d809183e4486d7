"""One head over a million tokens: a causal matrix of a trillion cells, all default statistics, on this machine.

    python benchmarks/million.py [--length 1000000] [--record]

One call. Its last rows are swept before, alone, to tell how long it will take.
"""

from __future__ import annotations

import sys
import time

import harness
import torch

from heedmap import masks, measure
from heedmap.experiments.products import measure_products
from heedmap.machine import peak_memory

STRIP_BYTES = 400 * 2**20


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--length", type=harness.count, default=1_000_000)
    given = options.parse_args()
    harness.ready()
    n, dim = given.length, 64
    peak = max(shape["operations_per_second"] for shape in measure_products(dim, seconds=2.0))
    query, key = torch.randn(1, 1, n, dim), torch.randn(1, 1, n, dim)
    some = min(n, 2048)  # a row sees half of the keys on average, the last ones all
    began = time.perf_counter()
    measure(query, key, mask=masks.causal(), rows=(n - some, n), strip_bytes=STRIP_BYTES)
    expected = (time.perf_counter() - began) * n / some / 2
    print(f"{n:,} tokens: about {expected:.0f} s", file=sys.stderr, flush=True)
    began = time.perf_counter()
    found = measure(query, key, mask=masks.causal(), strip_bytes=STRIP_BYTES)
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
