"""The commands of the measured lessons: tables for people, JSON for programs, one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from heedmap.cli.main import main

SMALL = ["scaling", "--dims", "1,64", "--seeds", "3", "--n", "20"]


def test_scaling_prints_tables_with_predictions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SMALL) == 0
    told = capsys.readouterr().out
    assert "Spread of the scores" in told
    assert "predictions lie within their interval" in told
    assert max(map(len, told.splitlines())) <= 80


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
    assert main(arguments) == 0
    assert "Have components mean 0 and variance 1?" in capsys.readouterr().out


def test_complexity_prints_cells_and_exponents(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "complexity.png"
    arguments = ["complexity", "--shortest", "64", "--longest", "256", "--methods", "sdpa", "--fit-from", "64"]
    assert main([*arguments, "--png", str(picture), "--parquet", str(tmp_path / "points.parquet")]) == 0
    told = capsys.readouterr().out
    assert "65,536" in told
    assert "GFLOP/s" in told
    assert picture.stat().st_size > 10_000
    assert parquet.read_table(tmp_path / "points.parquet").num_rows == 3


def test_plan_is_one_json_document(minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "minilm", "--tokens", "128", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tokens"] == 128
    assert {128, 256, 512} == {cost["tokens"] for cost in document["costs"]}


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
        ["scaling", "--png", "picture.jpg"],
        ["scaling", "--parquet", "table.csv"],
        ["complexity", "--methods", "magic"],
        ["complexity", "--shortest", "512", "--longest", "64"],
        ["complexity", "--seconds", "0"],
        ["complexity", "--memory", "nan"],
        ["plan", "minilm"],
        ["plan", "minilm", "--tokens", "513"],
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
