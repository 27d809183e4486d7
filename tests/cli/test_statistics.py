from __future__ import annotations

import json

import pytest

from heedmap.cli.main import main


def test_the_list_names_formula_unit_axis_and_source(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["statistics"]) == 0
    printed = capsys.readouterr().out
    assert "Of each query row" in printed
    line = next(line for line in printed.splitlines() if line.startswith("induction"))
    assert "Σ_{j < i, t_(j-1) = t_i} w[i, j]" in line
    assert "weight" in line
    assert "Olsson et al. 2022" in line


def test_a_name_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statistics", "span_mass"]) == 0
    printed = capsys.readouterr().out
    assert "named spans" in printed
    assert "query.parquet, list of float32" in printed
    assert "entropy" not in printed


def test_an_unknown_name_is_an_error_with_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statistics", "entropi"]) == 2
    assert "did you mean entropy?" in capsys.readouterr().err


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statistics", "received_mean", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["statistics"]
    assert (entry["axis"], entry["unit"], entry["asked"]) == ("key", "weight", "default")
    assert entry["formula"] == "received / rows_that_may_see"
