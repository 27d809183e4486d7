"""Time and memory over length: what is counted, what is measured, and that the machine is never filled."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from heedmap.errors import HeedmapError, InputError
from heedmap.experiments import complexity
from heedmap.experiments.complexity import Complexity, Measured, Settings, methods, run_complexity
from heedmap.experiments.operations import Shape, eager_bytes, sdpa_bytes, state_bytes, sweep_bytes
from heedmap.experiments.point import PRODUCT, Order, eager, measure_point, repeated
from heedmap.experiments.products import measure_products
from heedmap.kernels import native, strips
from heedmap.kernels.extension import extension
from heedmap.machine import available_memory, peak_memory, resident_memory, total_memory
from heedmap.measure import attend

KERNELS = methods()[2:]
PRODUCTS = [{"rows": 8, "inner": 8, "columns": 8, "operations_per_second": rate} for rate in (1e9, 4e9, 2e9)]
SWEEP = strips.NAME if extension() is None else native.NAME
"""The kernel that "auto" takes here."""


def run_once(settings: Settings) -> Complexity:
    """The experiment with a single run a process: memory is that of the first, and time is not looked at here.

    Of two processes the one that took less counts: pages that a loaded system took away and gave back only add.
    """
    run = complexity._run

    def once(order: Order, seconds: float) -> dict[str, Any]:
        if order.method == PRODUCT:
            return {"status": "measured", "products": PRODUCTS}
        short = replace(order, seconds=0.0, most_seconds=0.0)
        return min((run(short, seconds) for _ in range(2)), key=lambda found: found.get("bytes", 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(complexity, "_run", once)
        return run_complexity(settings)


@pytest.fixture(scope="module")
def kept() -> Complexity:
    return run_once(Settings(1024, 8192, 1, methods=("eager",), fit_from=1024, head_dim=8, seconds=60))


@pytest.fixture(scope="module")
def swept() -> Complexity:
    # many small heads: what grows with n is then well above the megabyte by which two runs of a process differ
    return run_once(Settings(1024, 8192, 1, methods=(SWEEP,), heads=16, head_dim=16, fit_from=1024, seconds=120))


def test_memory_of_kept_weights_grows_with_the_square_of_n(kept: Complexity) -> None:
    law = kept.exponent("eager", "bytes")
    assert law is not None
    assert law.exponent.mean == pytest.approx(2.0, abs=0.1)


def test_memory_of_the_sweep_grows_with_n(swept: Complexity) -> None:
    law = swept.exponent(SWEEP, "bytes")
    assert law is not None
    assert law.exponent.mean == pytest.approx(1.0, abs=0.15)


def test_predicted_memory_is_what_a_fresh_process_measures(kept: Complexity, swept: Complexity) -> None:
    for point in kept.points + swept.points:
        assert point.status == "measured"
        assert point.bytes == pytest.approx(point.predicted_bytes, rel=0.15, abs=2**20)


def test_8192_tokens_are_67108864_cells() -> None:
    assert Shape(8192).cells == 67_108_864
    assert Shape(8192).product_operations == 2 * 2 * 67_108_864 * 64


def test_lengths_double_or_more_finely() -> None:
    assert Settings(512, 5000, 1).lengths == (512, 1024, 2048, 4096)
    assert Settings(100, 200, 2).lengths == (100, 141, 200)
    assert Settings(1000, 4000).lengths == (1000, 1408, 2000, 2816, 4000)  # between powers in units of 32
    assert 8192 in Settings().lengths
    assert Settings(7, 7).lengths == (7,)


def test_bytes_are_counted_from_shapes() -> None:
    shape = Shape(100, heads=3, head_dim=8)
    assert eager_bytes(shape) == 4 * (2 * 3 * 100**2 + 2 * 3 * 100 * 8)
    assert sdpa_bytes(shape) == 4 * 3 * 100 * 9
    measured = attend(*(torch.randn(1, 3, 100, 8) for _ in range(3))).measurements
    assert state_bytes(shape) == sum(
        quantity.values.nbytes
        for name, quantity in measured.quantities.items()
        if name not in ("row_valid", "distances")
    )
    for kernel in KERNELS:
        assert sweep_bytes(shape, kernel=kernel) > state_bytes(shape) + shape.output_bytes


def test_eager_is_attention_with_its_weights() -> None:
    query, key, value = (torch.randn(1, 2, 5, 4) for _ in range(3))
    output, weights = eager(query, key, value)
    torch.testing.assert_close(output, torch.nn.functional.scaled_dot_product_attention(query, key, value))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 5))


def test_what_would_not_fit_is_not_run_and_says_how_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Order] = []

    def run(order: Order, seconds: float) -> dict[str, object]:
        ran.append(order)
        return {"status": "measured", "products": PRODUCTS, "seconds": 1e-9, "bytes": 1, "repeats": 1}

    monkeypatch.setattr(complexity, "_run", run)
    found = run_complexity(Settings(2**16, 2**18, methods=("eager",)))
    assert [point.status for point in found.points][-1] == "would not fit"
    assert found.points[-1].predicted_bytes > 2 * 4 * 2**36
    assert all(order.method == PRODUCT or order.n < 2**18 for order in ran)


def test_what_would_take_too_long_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        complexity,
        "_run",
        lambda order, seconds: {"status": "measured", "products": PRODUCTS, "seconds": 1.0, "bytes": 9, "repeats": 1},
    )
    found = run_complexity(Settings(64, 512, 1, methods=("sdpa",), seconds=2))
    assert [point.status for point in found.points] == ["measured", "too long", "too long", "too long"]
    assert found.points[1].predicted_seconds == 4.0


def test_speed_is_told_in_units_of_the_fastest_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        complexity,
        "_run",
        lambda order, seconds: {"status": "measured", "products": PRODUCTS, "seconds": 1e-3, "bytes": 9, "repeats": 3},
    )
    found = run_complexity(Settings(1024, 1024, methods=("sdpa",)))
    assert found.product_operations_per_second == 4e9
    assert found.points[0].times_product == pytest.approx(4 * 1024**2 * 64 / 1e-3 / 4e9)
    assert found.document()["products"] == PRODUCTS


def test_products_are_squares_and_those_of_attention() -> None:
    found = measure_products(16, 0.01)
    assert [(p["rows"], p["inner"], p["columns"]) for p in found][-2:] == [(4096, 16, 4096), (4096, 4096, 16)]
    assert all(product["operations_per_second"] > 0 for product in found)


def made_up(*seconds: float) -> Callable[[], float]:
    return iter(seconds).__next__


@pytest.mark.parametrize(
    ("seconds", "most", "runs"),
    [
        ([0.6, 0.6, 0.6, 0.6], 10.0, 3),  # three, though two are a second already
        ([3.0, 3.0, 3.0, 3.0], 10.0, 3),
        ([4.0, 4.0, 4.0], 10.0, 2),  # a third would pass the limit
        ([9.0, 9.0], 10.0, 1),
        ([0.2] * 9, 10.0, 5),
        ([1e-6] * 300, 10.0, 200),
    ],
)
def test_a_length_is_run_three_times_where_that_fits(seconds: list[float], most: float, runs: int) -> None:
    found = repeated(made_up(*seconds[1:]), seconds[0], 1.0, most)
    assert [seconds[0], *found] == seconds[:runs]


def test_time_is_the_median_of_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.experiments.point.limit_growth", lambda most: None)
    taken = made_up(9.0, 1.0, 1.5)
    monkeypatch.setattr("heedmap.experiments.point._timed", lambda *inputs: taken())
    found = measure_point(Order("sdpa", 64, 1, 8, 1.0, 2**40, 20.0))
    assert (found["seconds"], found["fastest"], found["repeats"]) == (1.5, 1.0, 3)


def test_one_slow_length_does_not_move_the_exponent_of_time() -> None:
    slow = {8192: 2.2, 32_768: 0.9}
    points = [_made(n, 3e-9 * n**2 * slow.get(n, 1.0)) for n in Settings(4096, 32_768).lengths]
    law = complexity.fitted(points, 4096, "eager", "seconds")
    assert law is not None
    assert law.exponent.mean == pytest.approx(2.0, abs=0.03)
    assert law.exponent.low <= 2.0 <= law.exponent.high
    assert law.fixed == 0.0


def _made(n: int, seconds: float) -> complexity.Point:
    return complexity.Point("eager", n, n * n, "measured", seconds, seconds, 1, 3, 1, None, 1, 1, None, None)


def test_a_process_that_outgrows_its_room_fails_alone() -> None:
    found = complexity._run(Order("eager", 4096, 1, 8, 0.01, 16 * 2**20), 120)
    assert found["status"] == "did not fit"


def test_a_process_that_runs_too_long_is_ended() -> None:
    assert complexity._run(Order("sdpa", 64, 1, 8, 60.0, 2**30), 0.1)["status"] == "too long"


def test_a_defect_in_a_process_is_told() -> None:
    with pytest.raises(HeedmapError, match="a measurement of nothing"):
        complexity._run(Order("nothing", 64, 1, 8, 0.01, 2**32), 120)


def test_a_point_is_measured_here_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.experiments.point.limit_growth", lambda most: None)
    for method in ("eager", "sdpa", "strips"):
        found = measure_point(Order(method, 128, 2, 8, 0.01, 2**40))
        assert found["status"] == "measured"
        assert found["seconds"] > 0


def test_document_is_plain_data_with_both_exponents() -> None:
    points = [_made(n, 3e-9 * n**2) for n in Settings(4096, 32_768).lengths]
    document = json.loads(
        json.dumps(Measured(Settings(methods=("eager",)), 0, tuple(PRODUCTS), points).fitted().document())
    )
    assert {fit["quantity"] for fit in document["exponents"]} == {"seconds", "bytes"}


def test_the_machine_tells_its_memory() -> None:
    assert 0 < available_memory() <= total_memory()
    assert 0 < resident_memory() <= peak_memory() * 1.01


@pytest.mark.parametrize(
    "changes",
    [
        {"shortest": 0},
        {"longest": 4},
        {"seconds": 0},
        {"seconds": 1e300},
        {"memory": 5},
        {"memory": 2**63},
        {"methods": ("magic",)},
        {"heads": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Settings(**changes)  # pyright: ignore[reportArgumentType]


def test_a_room_too_small_for_any_method_measures_nothing_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = complexity._run
    monkeypatch.setattr(complexity, "_run", lambda order, seconds: run(replace(order, seconds=0.2), seconds))
    found = run_complexity(Settings(shortest=256, longest=256, memory=2**20, seconds=1, methods=("eager",)))
    assert [point.bytes for point in found.points] == [None]
    assert found.product_operations_per_second > 0
