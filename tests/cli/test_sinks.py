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
    """Four heads, of which one sinks on the first token and one on the third."""
    weights = np.array([[made.on(25, 0), made.on(25, 2), made.shifted(25, 1), made.uniform(25)]])
    made.make_run(tmp_path / "run", weights)
    return str(tmp_path / "run")


def test_rate_weight_and_score_are_told(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sinks", run]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "layer sink α 0 α 1 α 2 α 3 score 0 score 1 score 2 score 3" in printed
    assert "0 2 0.280 0.020 0.270 0.020" in printed
    assert "Sink rate, share of heads above 0.3: 50.0% on any of these tokens (token0 25.0%, token1 0.0%" in printed


def test_files_have_every_head_and_token(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sinks", run, "--first", "3", "--out", str(tmp_path), "--png", str(tmp_path / "s.png"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rate_of_any"] == 0.5
    assert [token["rate"] for token in document["tokens"]] == [0.25, 0, 0.25]
    table = duckdb.sql(f"SELECT head, position FROM '{tmp_path}/sinks.parquet' WHERE sinks ORDER BY head").fetchall()
    assert table == [(0, 0), (1, 2)]
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_is_looked_at_first(minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat because it was tired. " * 3)
    assert main(["sinks", "--model", "minilm", "--file", str(text), "--tokens", "12", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["about"]["data"].startswith(f"{text}: a text of 12 tokens")
    assert document["tokens"][0]["text"] == "[CLS]"
    assert len(document["rows"]) == 72 * 4


def test_scores_are_left_out_where_the_run_has_no_inputs(made: ModuleType, tmp_path: Path, capsys) -> None:
    made.make_run(tmp_path / "bare", np.array([[made.uniform(8)]]), keep_inputs=False)
    assert main(["sinks", str(tmp_path / "bare"), "--png", str(tmp_path / "s.svg")]) == 0
    printed = capsys.readouterr().out
    assert "No scores: the run was written without its inputs." in printed
    assert "score 0" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a run, or --model M with --file F, got neither"),
        (["--model", "minilm"], "got --model alone"),
        (["RUN", "--file", "x.txt"], "got both"),
        (["RUN", "--first", "26"], "from 1 to 25 first tokens of this text, got 26"),
        (["RUN", "--threshold", "1"], "--threshold from 0 to below 1"),
        (["RUN", "--threshold", "nan"], "--threshold from 0 to below 1"),
        (["nowhere"], "nowhere"),
    ],
)
def test_what_does_not_fit_together_is_refused(run: str, arguments: list[str], message: str, capsys) -> None:
    assert main(["sinks", *(run if item == "RUN" else item for item in arguments)]) == 2
    assert message in capsys.readouterr().err
