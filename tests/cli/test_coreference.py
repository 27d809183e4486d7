from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from heedmap.cli.main import main
from heedmap.heads.gap import HEADER

WORDS = [("Anna", "a", "PROPN"), ("saw", "", "VERB"), ("Peter", "b", "PROPN"), ("and", "", "X"), ("she", "a", "PRON"),
         ("called", "", "VERB"), ("him", "b", "PRON"), ("Anna", "a", "PROPN")]  # fmt: skip
TEXT = "Anna met Eve and she left."


@pytest.fixture
def chains(tmp_path: Path) -> list[str]:
    """Four documents in a file each."""
    paths = []
    for number in range(4):
        lines = [f"# newdoc id = d{number}", "# global.Entity = GRP-minspan"]
        for index, (form, chain, pos) in enumerate(WORDS, 1):
            entity = f"Entity=({chain}-1)" if chain else "_"
            lines.append("\t".join([str(index), form, form, pos, "_", "_", "0", "root", "_", entity]))
        paths.append(tmp_path / f"d{number}.conllu")
        paths[-1].write_text("\n".join(lines) + "\n\n")
    return [str(path) for path in paths]


@pytest.fixture
def gap(tmp_path: Path) -> str:
    row = ["v", TEXT, "she", "17", "Anna", "0", "TRUE", "Eve", "9", "FALSE", "x"]
    path = tmp_path / "gap.tsv"
    path.write_text("\n".join("\t".join(cells) for cells in [list(HEADER), row, row, row]) + "\n")
    return str(path)


def test_both_kinds_of_file_are_told_apart_and_printed(
    chains: list[str], gap: str, minilm_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coreference", *chains, gap]) == 0
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    assert any(line[:2] == ["pronoun", "none"] for line in lines)
    assert any(line[:2] == ["nearest", "name"] for line in lines)
    assert "4 files, d0.conllu to d3.conllu (sha256 of their hashes" in " ".join(printed.split())
    assert "where no earlier mention has the same head word" in " ".join(printed.split())


def test_out_holds_tables_that_state_what_they_were_found_on(
    chains: list[str], gap: str, minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["coreference", *chains, gap, "--out", str(out), "--json", "--tokens", "64", "--limit", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {path.name for path in out.iterdir()} == {
        f"{name}.{kind}"
        for name in ("coreference", "coreference-heads", "gap", "gap-heads")
        for kind in ("parquet", "csv", "tex")
    }
    assert sorted(document["files"]) == sorted(str(path) for path in out.iterdir())
    first, second = document["tables"]
    assert first["about"]["documents"] == "3"
    assert first["about"]["window"] == "at most 64 tokens"
    assert first["about"]["items"] == "9 mentions"
    assert second["about"]["items"] == "3 examples"
    assert len(second["heads"]) == 72
    rows = duckdb.sql(f"SELECT mentions, items FROM '{out / 'coreference.parquet'}' WHERE earlier_same_word = 'any'")
    assert rows.fetchall()[0] == ("all", 9)
    facts = dict(
        duckdb.sql(f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{out / 'gap.parquet'}')").fetchall()
    )
    assert facts["model"] == "minilm"
    assert facts["command"].startswith("heedmap coreference ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILES"),
        (["nowhere.conllu"], "nowhere.conllu"),
        (["PLAIN"], "expected coreference chains in plain"),
        (["PROSE"], "expected CoNLL-U"),
        (["EMPTY"], "an empty file"),
        (["GAP1"], "two examples of GAP at least"),
        (["ONE"], "two documents at least"),
        (["ONE", "ONE"], "expected each file once, got"),
        (["ONE", "--tokens", "4"], "--tokens"),
        (["ONE", "--model", "no-such-model-anywhere"], "no-such-model-anywhere"),
    ],
)
def test_mistakes_are_one_line(
    arguments, message: str, chains: list[str], minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "PLAIN": "\t".join(["1", "a", "a", "X", "_", "_", "0", "root", "_", "_"]) + "\n\n",
        "PROSE": "It was a dark and stormy night.\n",
        "EMPTY": "",
        "GAP1": "\t".join(HEADER) + "\n",
    }
    places = {"ONE": chains[0]}
    for name, text in texts.items():
        places[name] = str(tmp_path / f"{name.lower()}.txt")
        Path(places[name]).write_text(text)
    assert main(["coreference", *[places.get(word, word) for word in arguments]]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""
