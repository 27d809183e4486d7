"""Time and memory over length: what is counted, what is measured, and that the machine is never filled."""

from __future__ import annotations

import json

import pytest
import torch

from heedmap.errors import HeedmapError, InputError
from heedmap.experiments import complexity
from heedmap.experiments.complexity import Complexity, Settings, methods, run_complexity
from heedmap.experiments.operations import Shape, eager_bytes, sdpa_bytes, state_bytes, sweep_bytes
from heedmap.experiments.point import PRODUCT, Order, eager, measure_point
from heedmap.kernels import native, strips
from heedmap.machine import available_memory, peak_memory, resident_memory, total_memory
from heedmap.measure import attend

KERNELS = methods()[2:]
SWEEP = strips.NAME if native.extension() is None else native.NAME
"""The kernel that "auto" takes here."""


@pytest.fixture(scope="module")
def eager_and_sweep() -> Complexity:
    kept = run_complexity(Settings(1024, 8192, methods=("eager",), fit_from=1024, head_dim=8, seconds=60))
    swept = run_complexity(Settings(4096, 32768, methods=(SWEEP,), seconds=120))
    return Complexity(
        swept.settings, kept.points + swept.points, kept.exponents + swept.exponents, 1.0, swept.machine, 0
    )


def test_memory_of_kept_weights_grows_with_the_square_of_n(eager_and_sweep: Complexity) -> None:
    law = eager_and_sweep.exponent("eager", "bytes")
    assert law is not None
    assert law.exponent.mean == pytest.approx(2.0, abs=0.1)


def test_memory_of_the_sweep_grows_with_n(eager_and_sweep: Complexity) -> None:
    law = eager_and_sweep.exponent(SWEEP, "bytes")
    assert law is not None
    assert law.exponent.mean == pytest.approx(1.0, abs=0.15)


def test_predicted_memory_is_what_a_fresh_process_measures(eager_and_sweep: Complexity) -> None:
    for point in eager_and_sweep.points:
        assert point.status == "measured"
        assert point.bytes == pytest.approx(point.predicted_bytes, rel=0.15, abs=2**20)


def test_8192_tokens_are_67108864_cells() -> None:
    assert Shape(8192).cells == 67_108_864
    assert Shape(8192).product_operations == 2 * 2 * 67_108_864 * 64


def test_lengths_double_or_more_finely() -> None:
    assert Settings(512, 5000).lengths == (512, 1024, 2048, 4096)
    assert Settings(100, 200, 2).lengths == (100, 141, 200)
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
        return {"status": "measured", "operations_per_second": 1e9, "seconds": 1e-9, "bytes": 1, "repeats": 1}

    monkeypatch.setattr(complexity, "_run", run)
    found = run_complexity(Settings(2**16, 2**18, methods=("eager",)))
    assert [point.status for point in found.points][-1] == "would not fit"
    assert found.points[-1].predicted_bytes > 2 * 4 * 2**36
    assert all(order.method == PRODUCT or order.n < 2**18 for order in ran)


def test_what_would_take_too_long_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        complexity,
        "_run",
        lambda order, seconds: {"status": "measured", "operations_per_second": 1e9, "seconds": 1.0, "bytes": 9,
                                "repeats": 1},
    )  # fmt: skip
    found = run_complexity(Settings(64, 512, methods=("sdpa",), seconds=2))
    assert [point.status for point in found.points] == ["measured", "too long", "too long", "too long"]
    assert found.points[1].predicted_seconds == 4.0


def test_a_process_that_outgrows_its_room_fails_alone() -> None:
    found = complexity._run(Order("eager", 4096, 1, 8, 0.01, 16 * 2**20), 120)
    assert found["status"] == "did not fit"


def test_a_process_that_runs_too_long_is_ended() -> None:
    assert complexity._run(Order("sdpa", 64, 1, 8, 60.0, 2**30), 0.5)["status"] == "too long"


def test_a_defect_in_a_process_is_told() -> None:
    with pytest.raises(HeedmapError, match="a measurement of nothing"):
        complexity._run(Order("nothing", 64, 1, 8, 0.01, 2**32), 120)


def test_a_point_is_measured_here_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.experiments.point.limit_growth", lambda most: None)
    for method in ("eager", "sdpa", "strips"):
        found = measure_point(Order(method, 128, 2, 8, 0.01, 2**40))
        assert found["status"] == "measured"
        assert found["seconds"] > 0


def test_document_is_plain_data(eager_and_sweep: Complexity) -> None:
    document = json.loads(json.dumps(eager_and_sweep.document()))
    assert {fit["quantity"] for fit in document["exponents"]} == {"seconds", "bytes"}


def test_the_machine_tells_its_memory() -> None:
    assert 0 < available_memory() <= total_memory()
    assert 0 < resident_memory() <= peak_memory() * 1.01


@pytest.mark.parametrize(
    "changes",
    [{"shortest": 0}, {"longest": 4}, {"seconds": 0}, {"memory": 5}, {"methods": ("magic",)}, {"heads": 0}],
)
def test_settings_that_mean_nothing_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Settings(**changes)  # pyright: ignore[reportArgumentType]


def test_a_room_too_small_for_any_method_measures_nothing_and_breaks_nothing() -> None:
    found = run_complexity(Settings(shortest=256, longest=256, memory=2**20, seconds=1, methods=("eager",)))
    assert [point.bytes for point in found.points] == [None]
