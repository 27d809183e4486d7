"""The sweep against torch's own attention: 9 heads, n = 8192, head_dim 64, fp32, all default statistics.

python benchmarks/sweep.py [--length N] [--rounds R]
"""

from __future__ import annotations

import harness
import torch
from torch.nn import functional

from heedmap import AttentionInputs, attend, masks, measure
from heedmap.measure import kernels_for

MEMORY = """
import json, sys, torch
from heedmap.machine import peak_memory
from heedmap import measure
n = int(sys.argv[1])
query, key = torch.randn(1, 1, n, 64), torch.randn(1, 1, n, 64)
measure(query[:, :, :256], key[:, :, :256])
before = peak_memory()
measure(query, key)
print(json.dumps({"bytes": peak_memory() - before}))
"""


def extra_memory(length: int) -> int:
    """Bytes that a sweep of one head takes beyond its inputs, in a process of its own."""
    return harness.child(MEMORY, length)["bytes"]


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--length", type=harness.count, default=8192)
    options.add_argument("--rounds", type=harness.count, default=5)
    given = options.parse_args()
    harness.ready()

    query, key, value = (torch.randn(1, 9, given.length, 64) for _ in range(3))
    ratios: dict[str, dict[str, float]] = {}
    for name, mask in (("full", None), ("causal", masks.causal())):
        cases = {
            "sdpa": lambda causal=mask is not None: functional.scaled_dot_product_attention(
                query, key, value, is_causal=causal
            )
        }
        for kernel in kernels_for(AttentionInputs(query, key)):
            cases[f"measure, {kernel}"] = lambda mask=mask, kernel=kernel: measure(query, key, mask=mask, kernel=kernel)
            cases[f"attend, {kernel}"] = lambda mask=mask, kernel=kernel: attend(
                query, key, value, mask=mask, kernel=kernel
            )
        found = harness.in_turn(cases, given.rounds)
        base = found["sdpa"]["median"]
        ratios[name] = {case: times["median"] / base for case, times in found.items()}
        for case, times in found.items():
            print(
                f"{name:7} {case:18} {times['median']:7.3f} s  ({times['least']:.3f} to {times['most']:.3f})"
                f"  {times['median'] / base:5.2f} × sdpa"
            )
    memory = {length: extra_memory(length) for length in (32_768, 65_536)}
    for length, taken in memory.items():
        print(f"memory  one head, n = {length:6,}: {taken / 1e6:6.0f} MB beyond its inputs")
    harness.finish({"benchmark": "sweep", "length": given.length, "ratio_to_sdpa": ratios, "extra_bytes": memory})


if __name__ == "__main__":
    main()
