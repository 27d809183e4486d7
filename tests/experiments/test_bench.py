"""`heedmap bench`: what is timed is right, what cannot run is named, and nothing is timed on a busy machine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from heedmap.cli.main import main
from heedmap.errors import HeedmapError, InputError
from heedmap.experiments import bench, methods, turns
from heedmap.experiments.bench import Cases, Row, disagreements, run_bench
from heedmap.experiments.methods import CLASSES, METHODS, Call, Method
from heedmap.measure import measure

FLEX = "flex, compiled"
QUICK = tuple(method.name for method in METHODS if not method.compiles)
SMALL = Cases(lengths=(64, 128), masks=bench.MASKS, methods=QUICK, heads=2, rounds=2)


def call(mask: str, n: int = 90) -> Call:
    return Call(*(torch.randn(1, 2, n, 32) for _ in range(3)), mask)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", bench.DTYPES)
def test_every_method_agrees_with_the_textbook(dtype: str) -> None:
    assert list(disagreements(replace(SMALL, dtypes=(dtype,), head_dims=bench.HEAD_DIMS))) == []


@pytest.mark.parametrize("mask", bench.MASKS)
def test_the_statistics_of_kept_weights_are_those_of_the_sweep(mask: str) -> None:
    one = call(mask, 300)
    dense = methods.eager_statistics(one)()
    found = measure(one.query, one.key, mask=one.lazy_mask)
    for name in ("entropy", "max_weight", "argmax", "logsumexp", "row_mass", "concentration", "saturation",
                 "mean_distance", "received", "distance_profile"):  # fmt: skip
        torch.testing.assert_close(
            dense[name].double(), torch.from_numpy(found[name][0]).double(), rtol=2e-5, atol=2e-5, msg=name
        )
    assert float(dense["map_mean"].sum()) == pytest.approx(float(dense["received"].sum()), rel=1e-5)
    assert float(dense["map_max"].amax()) == float(dense["max_weight"].amax())


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_the_stock_tricks_give_what_each_key_receives_and_the_mass_of_classes(mask: str) -> None:
    one = call(mask)
    weights = methods.eager(one)()["weights"]
    found = methods.sdpa_tricks(one)()
    torch.testing.assert_close(found["received"], weights.sum(-2), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found["class_mass"], weights @ one.classes(), rtol=1e-4, atol=1e-5)
    assert found["class_mass"].shape[-1] == CLASSES


def test_rows_come_for_every_combination_with_ratios_to_sdpa() -> None:
    rows = list(run_bench(SMALL))
    assert len(rows) == 2 * len(bench.MASKS) * len(QUICK)
    for row in rows:
        if row.method == "sdpa + two tricks" and row.mask == "window":
            assert (row.status, row.timing) == ("unsupported", None)
            continue
        assert row.status == "measured"
        assert row.timing is not None
        assert row.timing.least <= row.timing.median <= row.timing.most
        sdpa = next(r for r in rows if (r.method, r.n, r.mask) == ("sdpa", row.n, row.mask)).timing
        assert sdpa is not None
        assert row.to_sdpa == row.timing.median / sdpa.median


def test_a_wrong_method_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(one: Call) -> Callable[[], dict[str, torch.Tensor]]:
        run = methods.sdpa(one)
        return lambda: {"output": run()["output"] * 1.001}

    monkeypatch.setattr(bench, "METHODS", (Method("wrong", wrong),))
    cases = replace(SMALL, methods=("wrong",))
    with pytest.raises(HeedmapError, match=r"expected methods that agree .* got wrong \(full, head_dim 64, fp32\)"):
        list(run_bench(cases))


def test_what_would_not_fit_and_what_would_take_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "available_memory", lambda: 300_000)  # query, key and value of 128 take 196,608
    monkeypatch.setattr(bench, "in_turn", lambda runs, rounds, seconds: {n: turns.Timing(1, 1, 1, 1) for n in runs})
    rows = list(run_bench(replace(SMALL, lengths=(128, 1024), masks=("full",), seconds=10.0)))
    found = {(row.method, row.n): row for row in rows}
    assert found["eager", 128].status == "would not fit"
    assert found["eager", 128].needs_bytes == 2 * 2 * 128 * 128 * 4
    assert found["sdpa", 128].status == "measured"
    assert found["sdpa", 1024].status == "too long"  # 64 s expected


def test_a_call_whose_own_tensors_would_not_fit_is_not_even_drawn() -> None:
    rows = list(
        run_bench(
            replace(SMALL, lengths=(64, 2**21), masks=("full",), heads=1024, rounds=1, seconds=1e12, methods=QUICK[:4])
        )
    )
    assert {row.status for row in rows if row.n == 64} == {"measured"}
    at_most = [row for row in rows if row.n == 2**21]
    assert {row.status for row in at_most} == {"would not fit"}
    assert min(row.needs_bytes for row in at_most) == 3 * 4 * 1024 * 2**21 * 64


def test_a_first_length_that_would_take_too_long_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "in_turn", lambda runs, rounds, seconds: {n: turns.Timing(1, 1, 1, 1) for n in runs})
    rows = list(run_bench(replace(SMALL, lengths=(8192,), masks=("full",), methods=("sdpa",), seconds=10.0)))
    assert [(row.n, row.status) for row in rows] == [(8192, "too long")]  # 64 s expected


def test_a_method_that_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(one: Call) -> Callable[[], dict[str, torch.Tensor]]:
        raise RuntimeError("no C++ compiler\nat length")

    monkeypatch.setattr(bench, "METHODS", (Method(FLEX, no_compiler, compiles=True),))
    (row,) = run_bench(replace(SMALL, lengths=(64,), masks=("full",), methods=(FLEX,)))
    assert (row.status, row.why) == ("unsupported", "no C++ compiler")


@pytest.mark.parametrize(
    "wrong",
    [{"lengths": (1,)}, {"lengths": (2**22,)}, {"masks": ("round",)}, {"masks": ()}, {"dtypes": ("fp8",)},
     {"methods": ("other",)}, {"heads": 0}, {"device": "tpu"}, {"seconds": math.nan}, {"rounds": 0}],
)  # fmt: skip
def test_odd_cases_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"\[bench\] expected"):
        replace(SMALL, **wrong)  # type: ignore[arg-type]


# --- turns -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless a case moves it."""
    now = [0.0]
    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])
    return now


def test_cases_take_turns_and_the_first_round_does_not_count(clock: list[float]) -> None:
    order: list[str] = []
    took: Iterator[float] = iter([90, 80, 1, 5, 3, 5, 2, 5])

    def case(name: str) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            clock[0] += next(took)

        return run

    found = turns.in_turn({"a": case("a"), "b": case("b")}, rounds=3)
    assert order == ["a", "b"] * 4
    assert found["a"] == turns.Timing(2, 1, 3, 3)
    assert found["b"] == turns.Timing(5, 5, 5, 3)


def test_where_no_further_round_fits_the_first_is_told(clock: list[float]) -> None:
    def slow() -> None:
        clock[0] += 60

    assert turns.in_turn({"a": slow}, rounds=3, seconds=100) == {"a": turns.Timing(60, 60, 60, 1)}
    assert turns.in_turn({"a": slow}, rounds=3, seconds=200)["a"].rounds == 2


def test_cores_at_work_are_told_from_what_the_system_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts = tmp_path / "stat"
    monkeypatch.setattr(turns, "_TIMES", counts)
    monkeypatch.setattr(turns.os, "cpu_count", lambda: 2)
    user, nice, system, idle, waiting = 100, 0, 50, 1000, 10
    counts.write_text(f"cpu  {user} {nice} {system} {idle} {waiting} 0 0 0 0 0\ncpu0 1 2 3\n")

    def sleep(seconds: float) -> None:  # of 200 ticks 50 at work
        counts.write_text(f"cpu  {user + 40} {nice} {system + 10} {idle + 130} {waiting + 20} 0 0 0 0 0\ncpu0 1 2 3\n")

    monkeypatch.setattr(turns.time, "sleep", sleep)
    assert turns.load() == pytest.approx(2 * 50 / 200)


# --- the command -----------------------------------------------------------------------------------------------------

ARGUMENTS = ["bench", "--lengths", "64,128", "--masks", "all", "--rounds", "1", "--heads", "1", "--methods", "heedmap",
             "--methods", "sdpa"]  # fmt: skip


def test_nothing_is_timed_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "load", lambda: 3.0)
    assert main(ARGUMENTS) == 2
    assert "[bench] expected a quiet machine, got 3.0 cores at work for others" in capsys.readouterr().err


def test_tables_name_every_method_and_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--busy"]) == 0
    page = capsys.readouterr().out
    assert page.count("heedmap attend, strips") == len(bench.MASKS)
    assert "not run: sdpa + two tricks, window" in page
    assert "128" in page
    assert max(map(len, page.splitlines())) <= 80


def test_json_is_one_line_that_holds_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--busy", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert len(document["rows"]) == 2 * len(bench.MASKS) * len(document["cases"]["methods"])
    assert {"processor", "threads"} <= document["machine"].keys()


def test_what_was_found_before_an_interruption_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(cases: Cases, say: Callable[[str], None]) -> Iterator[Row]:
        yield Row("sdpa", "output", 64, 64, "full", "fp32", "measured", turns.Timing(1.5, 1.5, 1.5, 1), 1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run_bench", interrupted)
    assert main([*ARGUMENTS, "--busy"]) == 130
    assert "1.5 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["--lengths", "12,x"], "whole numbers"), (["--lengths", ""], "whole numbers"),
     (["--masks", "round"], "masks among"),
     (["--methods", "bert"], "with a part of"), (["--seconds", "nan"], "above 0"), (["--dtypes", ""], "dtypes among")],
)  # fmt: skip
def test_odd_arguments_are_one_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
