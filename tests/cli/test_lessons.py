"""The commands of the measured lessons: tables for people, JSON for programs, one line for what is wrong."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as parquet
import pytest
from rich.console import Console

from heedmap.cli import lesson
from heedmap.cli.main import main

SMALL = ["scaling", "--dims", "1,64", "--seeds", "3", "--n", "20"]


def test_scaling_prints_tables_with_predictions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SMALL) == 0
    told = capsys.readouterr().out
    assert "Spread of the scores" in told
    assert "predictions lie within their interval" in told
    assert max(map(len, told.splitlines())) <= 80


def test_a_single_seed_is_told_to_have_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--dims", "4", "--seeds", "1", "--n", "8"]) == 0
    told = capsys.readouterr().out
    assert "1 seed × 1" in told
    assert "A single seed has no interval" in told
    assert "0 of 0" not in told


def test_an_interrupted_scaling_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedmap.experiments import scaling

    measure_seed = scaling._measure_seed

    def until_64(settings: scaling.Settings, head_dim: int, seed: int) -> Mapping[tuple[str, str], float]:
        if head_dim == 64 and seed == 1:
            raise KeyboardInterrupt
        return measure_seed(settings, head_dim, seed)

    monkeypatch.setattr(scaling, "_measure_seed", until_64)
    assert main([*SMALL, "--json"]) == 130
    captured = capsys.readouterr()
    assert captured.err == "[heedmap] interrupted; kept 1 of 2 values of d_k\n"
    document = json.loads(captured.out)
    assert document["interrupted"]
    assert {point["head_dim"] for point in document["points"]} == {1}
    assert main(["scaling", "--dims", "64", "--seeds", "3"]) == 130
    assert capsys.readouterr().err == "[heedmap] interrupted\n"


def test_an_interrupted_complexity_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedmap.experiments import complexity

    product = {"rows": 8, "inner": 8, "columns": 8, "operations_per_second": 1e9}

    def until_256(order: complexity.Order, seconds: float) -> dict[str, object]:
        if order.n == 256:
            raise KeyboardInterrupt
        return {"status": "measured", "products": [product], "seconds": 1e-3, "bytes": 9, "repeats": 3}

    monkeypatch.setattr(complexity, "_run", until_256)
    arguments = ["complexity", "--shortest", "64", "--longest", "256", "--per-doubling", "1", "--methods", "eager,sdpa"]
    assert main(arguments) == 130
    captured = capsys.readouterr()
    assert captured.err == "[heedmap] interrupted; kept 2 of 6 points\n"
    assert "16,384" in captured.out
    assert "65,536" not in captured.out


def test_scaling_writes_json_table_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, picture = tmp_path / "scaling.parquet", tmp_path / "scaling.svg"
    assert main([*SMALL, "--json", "--parquet", str(table), "--png", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["settings"]["n"] == 20
    rows = parquet.read_table(table)
    assert rows.num_rows == len(document["points"]) == 2 * 2 * 7
    assert rows.column_names == ["head_dim", "form", "quantity", "mean", "low", "high", "predicted"]
    assert picture.read_text().startswith("<?xml")


def test_scaling_on_a_models_heads(tmp_path: Path, minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ["--text", "The cat sat on the mat because it was tired"]
    picture = tmp_path / "heads.png"
    arguments = ["scaling", "--model", "minilm", *text, "--temperature", "2"]
    assert main([*arguments, "--json", "--png", str(picture), "--dark"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["heads"]) == 72
    assert document["claim"]["heads"] == 72
    assert document["heads"][0]["temperature_2_entropy"] > document["heads"][0]["as_is_entropy"]
    assert picture.stat().st_size > 10_000
    assert main([*arguments, *(f"--temperature={t}" for t in (0.25, 0.5, 4, 8, 16))]) == 0
    told = capsys.readouterr().out
    assert "Have components mean 0 and variance 1?" in told
    for temperature in ("0.25", "0.5", "2", "4", "8", "16"):
        assert f"T = {temperature}" in told
    assert "…" not in told.replace("[CLS]", "")
    assert max(map(len, told.splitlines())) <= 80


def test_complexity_prints_cells_and_exponents(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "complexity.png"
    arguments = ["complexity", "--shortest", "128", "--longest", "256", "--per-doubling", "1", "--methods", "sdpa",
                 "--seconds", "0.2"]  # fmt: skip
    assert main([*arguments, "--png", str(picture), "--parquet", str(tmp_path / "points.parquet")]) == 0
    told = capsys.readouterr().out
    assert "65,536" in told
    for column in ("operations", "counted", "memory", "GFLOP/s", "× mm"):
        assert column in told
    assert "16.8 M" in told  # 2 · 2 · 256² · 64 operations
    assert "torch's fastest matrix product" in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80
    assert picture.stat().st_size > 10_000
    assert parquet.read_table(tmp_path / "points.parquet").num_rows == 2


def test_the_longest_rows_of_complexity_fit_80_columns() -> None:
    from heedmap.cli.complexity import _page
    from heedmap.experiments.complexity import Complexity, Point, Settings

    settings = Settings(methods=("eager", "sdpa"))
    rows = [
        Point(method, 65_536, 2**32, status, seconds, seconds, size, 1, 34_393_292_800, 900.0, 2**40, 5 * 2**32, rate,
              times)
        for method, status, seconds, size, rate, times in (
            ("eager", "would not fit", None, None, None, None), ("sdpa", "measured", 754.4, 10**9, 1.8e11, 12.34))
    ]  # fmt: skip
    rows.append(replace(rows[0], n=2**20, cells=2**40, status="too long", predicted_seconds=1673.0))
    product = {"rows": 4096, "inner": 4096, "columns": 4096, "operations_per_second": 2e11}
    machine = {"processor": "a processor", "threads": 2}
    console = Console(width=80, file=StringIO())
    console.print(_page(Complexity(settings, tuple(rows), (), (product,), machine, 0)))
    told = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "…" not in told
    for cell in ("would not fit", "4,294,967,296", "12 min 34 s", "34.4 GB", "1.1 T", "12.34", "about 28 min"):
        assert cell in told


def test_numbers_of_any_size_take_few_letters() -> None:
    assert [lesson.count_text(number) for number in (999, 16.8e6, 2.9e17, 3e20)] == ["999", "16.8 M", "290 P", "300 E"]
    assert [lesson.bytes_text(number) for number in (999, 1.2e9, 2.3e18)] == ["999 B", "1.2 GB", "2.3 EB"]


def test_minutes_have_sixty_seconds() -> None:
    assert [lesson.seconds_text(s) for s in (0.5, 99.4, 239.7, 7300)] == ["500 ms", "99.4 s", "4 min 0 s", "2.0 h"]


def test_plan_is_one_json_document(
    minilm_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedmap.experiments import plan
    from heedmap.experiments.calibration import Base, calibrate

    base = nullcontext(SimpleNamespace(measured=lambda: Base(300_000_000, 400_000_000)))  # another test measures it
    monkeypatch.setattr(plan, "BaseMemory", lambda: base)
    monkeypatch.setattr(plan, "calibrate", partial(calibrate, seconds=0.02))
    assert main(["plan", "minilm", "--tokens", "128", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tokens"] == 128
    assert {128, 256, 512} == {cost["tokens"] for cost in document["costs"]}


def test_numbers_are_printed_though_their_picture_cannot_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    assert main([*SMALL, "--png", str(tmp_path / "scaling.png")]) == 2
    captured = capsys.readouterr()
    assert "Spread of the scores" in captured.out
    assert "No space left on device" in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["scaling", "--dims", "1,x"],
        ["scaling", "--components", "cauchy"],
        ["scaling", "--correlation", "0.5"],
        ["scaling", "--components", "correlated", "--correlation", "2"],
        ["scaling", "--temperature", "2"],
        ["scaling", "--model", "minilm"],
        ["scaling", "--model", "minilm", "--text", "cat", "--temperature", "0"],
        ["scaling", "--model", "minilm", "--text", "cat", "--temperature", "1e-300"],
        ["scaling", "--model", "minilm", "--text", "cat", "--dims", "4"],
        ["scaling", "--text", "cat", "--components", "uniform"],
        ["scaling", "--dark"],
        ["scaling", "--png", "picture.jpg"],
        ["scaling", "--parquet", f"{__file__}/table.parquet"],
        ["scaling", "--parquet", "table.csv"],
        ["complexity", "--methods", "magic"],
        ["complexity", "--shortest", "512", "--longest", "64"],
        ["complexity", "--seconds", "0"],
        ["complexity", "--memory", "nan"],
        ["complexity", "--memory", "1e300"],
        ["complexity", "--seconds", "1e300"],
        ["plan", "minilm"],
        ["plan", "minilm", "--tokens", "513"],
        ["plan", "minilm", "--tokens", "5", "--batch", "99999999999"],
        ["plan", "no-such-model", "--tokens", "5"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], minilm_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("[")
