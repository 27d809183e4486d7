"""Forward and backward through `attend` against torch's own attention: time in turn, and memory over lengths.

python benchmarks/backward.py [--length 8192] [--rounds 5] [--record]
"""

from __future__ import annotations

import harness
import torch
from torch.nn import functional

from heedmap import attend, masks

MEMORY = """
import json, sys, torch
from heedmap import attend
from heedmap.machine import forget_peak, peak_memory, resident_memory
from heedmap.experiments.point import eager
way, n = sys.argv[1], int(sys.argv[2])
def run(n):
    tensors = [torch.randn(1, 1, n, 64, requires_grad=True) for _ in range(3)]
    held = resident_memory()
    forget_peak()
    output = attend(*tensors).output if way == "attend" else eager(*tensors)[0]
    output.sum().backward()
    return peak_memory() - held
run(256)
print(json.dumps({"bytes": run(n)}))
"""


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("--length", type=harness.count, default=8192)
    options.add_argument("--rounds", type=harness.count, default=5)
    given = options.parse_args()
    harness.ready()
    tensors = [torch.randn(1, 9, given.length, 64, requires_grad=True) for _ in range(3)]
    arriving = torch.randn(1, 9, given.length, 64)
    ratios = {}
    for name, mask in (("full", None), ("causal", masks.causal())):

        def sdpa(causal: bool = mask is not None) -> None:
            functional.scaled_dot_product_attention(*tensors, is_causal=causal).backward(arriving)

        def heedmap(mask: object = mask) -> None:
            attend(*tensors, mask=mask).output.backward(arriving)

        found = harness.in_turn({"sdpa": sdpa, "attend": heedmap}, given.rounds)
        ratios[name] = found["attend"]["median"] / found["sdpa"]["median"]
        for case, times in found.items():
            print(f"{name:7} {case:7} {times['median']:7.3f} s  ({times['least']:.3f} to {times['most']:.3f})")
        print(f"{name:7} {ratios[name]:15.2f} × sdpa, forward and backward")
    memory = {}
    for way in ("attend", "eager"):
        memory[way] = {length: harness.child(MEMORY, way, length)["bytes"] for length in (4096, 8192, 16_384)}
        print(f"memory, {way}: " + ", ".join(f"{taken / 1e6:,.0f} MB at {n:,}" for n, taken in memory[way].items()))
    harness.finish({"benchmark": "backward", "length": given.length, "ratio_to_sdpa": ratios, "extra_bytes": memory})


if __name__ == "__main__":
    main()
