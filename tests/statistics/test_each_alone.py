"""Statistics share work within a strip; what one gives must not depend on which others are asked for."""

from __future__ import annotations

import pytest
from tests.laws.cases import CASES

from heedmap.measure import KERNELS, sweep
from heedmap.statistics import RATIOS, STATISTICS

CHOSEN = [case for case in CASES if case.name in ("softcap and sinks", "mask holes", "length 1025", "left-padded rows")]


@pytest.mark.parametrize("kernel", [kernel.NAME for kernel in KERNELS])
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_a_statistic_measured_alone_has_the_same_bits_as_among_all(case, kernel: str) -> None:
    inputs = case.build()
    together = sweep(inputs, "all", kernel).measurements
    for name in (*STATISTICS, *RATIOS):
        alone = sweep(inputs, name, kernel).measurements
        assert alone[name].tobytes() == together[name].tobytes(), name
