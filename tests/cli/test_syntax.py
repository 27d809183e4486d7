from __future__ import annotations

import json
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import duckdb
import pytest

from heedmap.cli.main import main


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    spec = spec_from_file_location("gold_texts", Path(__file__).parents[1] / "gold_texts.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path / "bank.conllu"
    path.write_text(module.treebank(60))
    return path


def test_the_table_the_verdict_and_the_facts_are_printed(
    bank: Path, minilm_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["syntax", str(bank), "--relations", "det,obj"]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.strip()}
    assert rows["det"][3] in ("dependent", "head")
    assert rows["items"][2] == "arcs"
    assert rows["sentences"] == ["sentences", "60"]
    assert "More than 10 points above the best offset:" in printed
    assert "heedmap syntax" in printed


def test_out_holds_tables_that_duckdb_reads_and_pictures(
    bank: Path, minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    assert main(["syntax", str(bank), "--relations", "det,obj", "--out", str(out), "--dark", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in out.iterdir()) == sorted(Path(path).name for path in document["files"])
    assert {path.suffix for path in out.iterdir()} == {".parquet", ".csv", ".tex", ".png", ".svg"}
    rows = duckdb.sql(f"SELECT relation, accuracy, head FROM '{out / 'syntax.parquet'}'").fetchall()
    assert rows == [(row["relation"], row["accuracy"], row["head"]) for row in document["rows"]]
    every = duckdb.sql(f"SELECT count(*), count(DISTINCT reading) FROM '{out / 'syntax-heads.parquet'}'").fetchall()
    assert every == [(2 * 3 * 72, 3)]
    facts = dict(
        duckdb.sql(
            f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{out / 'syntax-heads.parquet'}')"
        ).fetchall()
    )
    assert facts["model"] == "minilm"
    assert facts["revision"].startswith("sha256:")
    assert "sha256" in facts["data"]
    assert facts["command"].startswith("heedmap syntax ")
    assert facts["seed"] == "0"
    assert document["about"] == {name: facts[name] for name in document["about"]}


def test_a_limit_is_said(bank: Path, minilm_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["syntax", str(bank), "--limit", "10", "--relations", "det", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["about"]["sentences"] == "10"
    assert "first 10 sentences" in document["about"]["data"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.conllu"], "nowhere.conllu"),
        (["PROSE"], "expected CoNLL-U (ten columns parted by tabs, heads that make a tree)"),
        (["BANK", "--model", "no-such-model-anywhere"], "no-such-model-anywhere"),
        (["BANK", "--relations", "det,nosuch"], "expected relations among"),
        (["BANK", "--relations", ","], "--relations"),
        (["BANK", "--limit", "1"], "--limit"),
        (["UNSEEN"], "none that can be scored in 2 sentences: 0 of words that share a token, 2 of words without one"),
        (["BANK", "--dark"], "--dark is about pictures"),
        (["BANK", "--out", "PROSE"], "which is a file"),
    ],
)
def test_mistakes_are_one_line(
    arguments, message: str, bank: Path, minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prose = tmp_path / "prose.txt"
    prose.write_text("It was a dark and stormy night.\n")
    unseen = tmp_path / "unseen.conllu"
    unseen.write_text(2 * "1\t\u200b\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tx\t_\tX\t_\t_\t0\troot\t_\t_\n\n")
    places = {"BANK": str(bank), "PROSE": str(prose), "UNSEEN": str(unseen)}
    assert main(["syntax", *[places.get(word, word) for word in arguments]]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""


def test_an_interruption_says_what_was_kept(
    bank: Path, minilm_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from heedmap.heads.syntax import Tally

    calls: list[int] = []
    add = Tally.add

    def interrupted(self: Tally, *given: object) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        add(self, *given)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Tally, "add", interrupted)
    assert main(["syntax", str(bank), "--out", str(tmp_path / "out")]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_weights_that_no_file_held_are_told(
    bank: Path, minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(minilm_folder, folder)
    (weights,) = folder.glob("*.safetensors")
    kept = load_file(weights)
    gone = [name for name in kept if name.endswith("layer.3.attention.self.query.weight")]
    save_file({name: value for name, value in kept.items() if name not in gone}, weights, {"format": "pt"})
    assert main(["syntax", str(bank), "--model", str(folder), "--relations", "det", "--json"]) == 0
    printed = capsys.readouterr()
    assert "warning: 1 weights of model were not in its file and are random numbers" in printed.err
    assert json.loads(printed.out)["about"]["weights drawn at random on loading"] == "1"
