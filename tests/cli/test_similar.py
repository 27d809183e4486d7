from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType

import duckdb
import numpy as np
import pytest

from heedmap.cli.main import main


@pytest.fixture
def run(made: ModuleType, tmp_path: Path) -> str:
    """Two layers with the same three heads: on a token, on the one before, on another token."""
    heads = [made.on(12, 3), made.shifted(12, 1), made.on(12, 7)]
    made.make_run(tmp_path / "run", np.array([heads, heads]))
    return str(tmp_path / "run")


def test_groups_say_who_is_alike_and_what_they_mostly_are(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similar", run, "--groups", "3"]) == 0
    printed = capsys.readouterr().out
    table, _ = printed.split("\nmodel")  # the command below it holds a path, which may break anywhere
    rows = [line.split() for line in table.splitlines() if line.strip()[:1].isdigit()]
    assert [row[1:3] for row in rows] == [["2", "0–1"]] * 3
    assert {tuple(row[-2:]) for row in rows} == {("0.0", "1.0"), ("0.1", "1.1"), ("0.2", "1.2")}
    assert "sink 2" in printed
    assert "previous 2" in printed
    assert "silhouette 1.00" in printed
    assert "of different layers" in printed


def test_json_has_every_distance(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similar", run, "--rows", "4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    matrix = np.array(document["distances"])
    assert matrix.shape == (6, 6)
    assert matrix[0, 3] == pytest.approx(0, abs=1e-6)
    assert matrix[0, 2] == pytest.approx(math.log(2), abs=1e-6)
    assert document["about"]["items"] == "4 rows of 12"
    assert document["rows"][0]["nearest"] == "1.0"


def test_tables_and_picture_are_written(run: str, tmp_path: Path) -> None:
    assert main(["similar", run, "--out", str(tmp_path), "--png", str(tmp_path / "map.png"), "--dark"]) == 0
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    ((count, largest),) = duckdb.sql(
        f"SELECT count(*), max(distance) FROM '{tmp_path}/similar_pairs.parquet'"
    ).fetchall()
    assert count == 15
    assert largest == pytest.approx(math.log(2), abs=1e-6)
    assert {path.name for path in tmp_path.glob("similar*.csv")} == {
        "similar_groups.csv", "similar_heads.csv", "similar_pairs.csv"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--groups", "7"], "from 1 to 6 groups, got 7"),
        (["--groups", "0"], "--groups"),
        (["--rows", "0"], "--rows"),
        (["--part", "decoder"], "a part among self"),
        (["--dark"], "--dark is about the picture"),
    ],
)
def test_what_cannot_be_done_is_refused(run: str, more: list[str], message: str, capsys) -> None:
    assert main(["similar", run, *more]) == 2
    assert message in capsys.readouterr().err
