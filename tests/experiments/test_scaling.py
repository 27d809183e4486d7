"""Why √d_k: what the experiment must show."""

from __future__ import annotations

import json
import math

import pytest

from heedmap.errors import InputError
from heedmap.experiments import scaling
from heedmap.experiments.scaling import QUANTITIES, Scaling, Settings, agreement, head_dims_from, run_scaling


@pytest.fixture(scope="module")
def at_64() -> Scaling:
    return run_scaling(Settings(head_dims=(64,)))


def test_raw_scores_spread_by_8_at_64_components(at_64: Scaling) -> None:
    spread = at_64.point(64, "raw", "spread")
    assert spread.measured.mean == pytest.approx(8.0, abs=0.2)
    assert spread.measured.half < 0.2
    assert spread.predicted == 8.0


def test_scaled_scores_spread_by_1(at_64: Scaling) -> None:
    spread = at_64.point(64, "scaled", "spread")
    assert spread.measured.mean == pytest.approx(1.0, abs=0.03)
    assert spread.measured.half < 0.03


@pytest.mark.parametrize("form", ["raw", "scaled"])
@pytest.mark.parametrize("quantity", ["entropy", "largest", "jacobian", "gradient"])
def test_predictions_lie_within_their_intervals(at_64: Scaling, form: str, quantity: str) -> None:
    assert at_64.point(64, form, quantity).agrees


def test_predictions_hold_for_correlated_components() -> None:
    found = run_scaling(Settings(head_dims=(8, 32), law="correlated", correlation=0.3))
    within, judged = agreement(found.points)
    assert within >= 0.85 * judged
    assert found.point(32, "raw", "spread").predicted == pytest.approx(math.sqrt(32 + 32 * 31 * 0.09))


def test_spread_of_uniform_components_is_predicted_exactly_and_the_rest_nearly() -> None:
    found = run_scaling(Settings(head_dims=(64,), law="uniform"))
    assert found.point(64, "raw", "spread").measured.mean == pytest.approx(8.0, abs=0.2)
    entropy = found.point(64, "scaled", "entropy")
    assert entropy.measured.mean == pytest.approx(entropy.predicted, abs=0.03)


def test_one_seed_has_no_interval_and_still_a_mean() -> None:
    found = run_scaling(Settings(head_dims=(4,), seeds=1, n=10))
    point = found.point(4, "raw", "entropy")
    assert math.isfinite(point.measured.mean)
    assert math.isnan(point.measured.half)
    assert agreement(found.points) == (0, 0)


def test_the_same_settings_give_the_same_numbers() -> None:
    settings = Settings(head_dims=(2, 16), seeds=3, n=100)
    assert run_scaling(settings).rows() == run_scaling(settings).rows()


def test_document_is_plain_data_with_every_quantity() -> None:
    document = run_scaling(Settings(head_dims=(2,), seeds=2, n=8)).document()
    json.dumps(document)
    assert {point["quantity"] for point in document["points"]} == set(QUANTITIES)


@pytest.mark.parametrize(
    "changes",
    [{"n": 1}, {"seeds": 0}, {"head_dims": ()}, {"head_dims": (0,)}, {"head_dims": (4, 4)}, {"law": "cauchy"},
     {"correlation": 1.0}],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Settings(**changes)  # pyright: ignore[reportArgumentType]


def test_a_draw_that_would_not_fit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "available_memory", lambda: 10**9)
    with pytest.raises(InputError, match=r"1\.0 GB can be had, got n = 8,192 and d_k = 64, which take about 3\.8 GB"):
        run_scaling(Settings(head_dims=(1, 64), n=8192))


def test_head_dims_are_numbers() -> None:
    assert head_dims_from("1, 64") == (1, 64)
    with pytest.raises(InputError, match="1,8,64"):
        head_dims_from("1,a")
