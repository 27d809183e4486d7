from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import duckdb
import numpy as np
import pytest

from heedmap.cli.main import main


@pytest.fixture
def run(made: ModuleType, tmp_path: Path) -> str:
    """Two layers in which every token reads the one before it."""
    labels = ["The", "ca", "##t", "sat", "on", "it"]
    weights = np.array([[made.shifted(6, 1)]] * 2)
    made.make_run(tmp_path / "run", weights, labels, words=[0, 1, 1, 2, 3, 4], text="The cat sat on it")
    return str(tmp_path / "run")


def test_contributions_are_listed_largest_first(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollout", run, "--token", "3", "--top", "2"]) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if "%" in line and line.strip()[0].isdigit()]
    assert rows == [["2", "##t", "50.00%"], ["1", "ca", "25.00%"]]
    assert "4 more: --out and --json have them all" in printed
    assert "residual  0.5" in printed


def test_words_have_the_sum_of_their_tokens(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollout", run, "--token", "-3", "--words", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["token"] == 2
    shares = {row["position"]: row["contribution"] for row in document["rows"]}
    assert shares[1] == pytest.approx(0.75, abs=1e-6)
    assert shares[2] == pytest.approx(0.25, abs=1e-6)
    assert np.array(document["by_depth"]).shape == (3, 5)
    assert document["layers"] == [0, 1]


def test_tables_and_picture_are_written(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["rollout", run, "--token", "5", "--out", str(tmp_path / "out"), "--png", str(tmp_path / "r.svg")]
    assert main([*arguments, "--dark"]) == 0
    assert (tmp_path / "r.svg").read_text().startswith("<?xml")
    query = "SELECT depth, sum(contribution) FROM '{}' GROUP BY depth ORDER BY depth"
    found = duckdb.sql(query.format(tmp_path / "out" / "rollout_depths.parquet")).fetchall()
    assert [depth for depth, _ in found] == [0, 1, 2]
    np.testing.assert_allclose([total for _, total in found], 1, atol=1e-6)
    assert (tmp_path / "out" / "rollout.tex").read_text().count("% command: heedmap rollout") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--token", "6"], "a token from 0 to 5, got 6"),
        (["--token", "1", "--residual", "1"], "a residual share from 0 to below 1"),
        (["--token", "x"], "--token"),
        ([], "--token"),
        (["--token", "1", "--dark"], "--dark is about the picture"),
        (["--token", "1", "--png", "x.gif"], "ends in .png or .svg"),
        (["--token", "1", "--part", "encoder"], "a part among self"),
    ],
)
def test_what_cannot_be_told_is_refused(run: str, more: list[str], message: str, capsys) -> None:
    assert main(["rollout", run, *more]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
