"""The sweep's memory grows with the length, not with its square."""

from __future__ import annotations

import subprocess
import sys

import pytest

MEASURE = """
import sys, torch
from heedmap.machine import peak_memory
from heedmap.attention import masks
from heedmap.measure import measure
torch.set_num_threads(1)
n, mask = int(sys.argv[1]), {"window": masks.causal() & masks.sliding_window(64), "causal": masks.causal()}[sys.argv[2]]
query, key = torch.randn(1, 1, n, 8), torch.randn(1, 1, n, 8)
measure(query[:, :, :64], key[:, :, :64])
before = peak_memory()
measure(query, key, mask=mask, statistics="default", strip_bytes=2**22)
print(peak_memory() - before)
"""


def extra(length: int, mask: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(length), mask], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


@pytest.mark.parametrize(("mask", "length"), [("causal", 8192), ("window", 32768)])
def test_twice_the_length_takes_about_twice_the_memory(mask: str, length: int) -> None:
    small, large = extra(length, mask), extra(2 * length, mask)
    assert large < 2.6 * max(small, 8 * 2**20)
    assert large < length * length * 4 / 4  # a quarter of one head's weights at the smaller length
