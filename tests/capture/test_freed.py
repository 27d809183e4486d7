from __future__ import annotations

import subprocess
import sys

import pytest

from heedmap.capture import freed

HOLD = """
from pathlib import Path
from heedmap.capture.freed import LONG, give_back
def held(): return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
blocks = [bytearray(100_000) for _ in range(1500)]
last = bytearray(1000)
before = held()
del blocks[:-1]
give_back(int(__import__("sys").argv[1]))
print(before - held())
"""


def given_back(rows: int) -> int:
    return int(subprocess.run([sys.executable, "-c", HOLD, str(rows)], check=True, capture_output=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is what keeps freed memory")
def test_after_a_long_layer_freed_memory_goes_back_to_the_system() -> None:
    from heedmap.capture.freed import LONG

    assert given_back(LONG) > 100 * 2**20


def test_after_a_short_layer_nothing_is_done() -> None:
    calls: list[int] = []
    original = freed._trim
    try:
        freed._trim = lambda: calls.append
        freed.give_back(freed.LONG - 1)
        assert not calls
        freed.give_back(freed.LONG)
        assert calls == [0]
    finally:
        freed._trim = original


def test_memory_is_given_back_after_growth_alone(monkeypatch) -> None:
    held, given = [100 * 2**20], []

    def trim(_: int) -> None:
        given.append(held[0])
        held[0] = 110 * 2**20

    monkeypatch.setattr(freed, "resident_memory", lambda: held[0])
    monkeypatch.setattr(freed, "_trim", lambda: trim)
    monkeypatch.setattr(freed, "GROWTH", 64 * 2**20)
    growth = freed.Growth()
    for now in (120, 164, 165, 170, 174, 175):  # the last is beyond 110 + 64
        held[0] = now * 2**20
        growth.check()
    assert [bytes_ // 2**20 for bytes_ in given] == [165, 175]
