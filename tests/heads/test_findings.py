from __future__ import annotations

import math
import re
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as parquet
import pytest

import heedmap
from heedmap.cli.findings import out_folder, page
from heedmap.cli.main import main
from heedmap.errors import InputError, StorageError
from heedmap.heads.findings import About, Column, Findings
from heedmap.heads.findings_files import csv_text, latex_text, write_findings

COLUMNS = (
    Column("relation", "string"),
    Column("items", "int64", spec=","),
    Column("accuracy", spec=".1%", unit="share"),
    Column("beats", "bool"),
    Column("layer", "int64", listed=False),
)
ABOUT = About("mini_lm", "sha256:12", "a.conllu", 1234, 7, "heedmap syntax a.conllu", "sentences", {"left out": 3})
ROWS = [
    {"relation": "nmod:poss", "items": 1234, "accuracy": 0.9431, "beats": True, "layer": 0},
    {"relation": 'a,"b" & 50%', "items": 0, "accuracy": math.nan, "beats": None, "layer": None},
]


def findings(rows: list[dict[str, object]] | None = None) -> Findings:
    return Findings("syntax", "Heads → relations", COLUMNS, ROWS if rows is None else rows, ABOUT, ("One note.",))  # pyright: ignore[reportArgumentType]


def test_every_table_states_what_it_was_found_on() -> None:
    assert ABOUT.entries() == {
        "model": "mini_lm",
        "revision": "sha256:12",
        "data": "a.conllu",
        "items": "1,234 sentences",
        "seed": "7",
        "command": "heedmap syntax a.conllu",
        "heedmap": heedmap.__version__,
        "left out": "3",
    }


def test_duckdb_reads_values_and_facts_of_the_parquet_file(tmp_path: Path) -> None:
    path, *_ = write_findings(findings(), tmp_path / "new" / "folder")
    rows = duckdb.sql(f"SELECT relation, items, accuracy, beats, layer FROM '{path}'").fetchall()
    assert rows[0] == ("nmod:poss", 1234, 0.9431, True, 0)
    assert rows[1][0] == 'a,"b" & 50%'
    assert math.isnan(rows[1][2])
    assert rows[1][3:] == (None, None)
    facts = dict(duckdb.sql(f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{path}')").fetchall())
    assert {name: facts[name] for name in ABOUT.entries()} == ABOUT.entries()
    assert facts["notes"] == "One note."
    assert parquet.read_schema(path).field("accuracy").metadata == {b"unit": b"share"}


def test_an_empty_table_keeps_its_columns_and_types(tmp_path: Path) -> None:
    path, *_ = write_findings(findings([]), tmp_path)
    assert [str(kind) for kind in parquet.read_schema(path).types] == ["string", "int64", "double", "bool", "int64"]


def test_csv_is_read_by_pandas_and_duckdb_and_states_the_facts(tmp_path: Path) -> None:
    _, path, _ = write_findings(findings(), tmp_path)
    table = pd.read_csv(path, comment="#")
    assert table["relation"].tolist() == ["nmod:poss", 'a,"b" & 50%']
    assert table["accuracy"][0] == 0.9431
    assert duckdb.sql(f"SELECT items FROM read_csv('{path}', comment='#', header=true)").fetchall() == [(1234,), (0,)]
    assert "# command: heedmap syntax a.conllu\n" in csv_text(findings())


def test_latex_escapes_and_shows_listed_columns_only() -> None:
    text = latex_text(findings())
    assert r"nmod:poss & 1,234 & 94.3\% & yes \\" in text
    assert r"a,\"b\" \& 50\% & 0 &  &  \\".replace('\\"', '"') in text
    assert r"\caption{Heads $\rightarrow$ relations}" in text
    assert "Model mini\\_lm (revision sha256:12); data a.conllu; 1,234 sentences; seed 7." in text
    assert "layer" not in text
    body = re.sub(r"(?m)^%.*$", "", text)
    assert body.isascii()
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")


def test_the_terminal_shows_table_notes_and_facts() -> None:
    from rich.console import Console

    console = Console(width=100, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(page(findings()))
    lines = captured.get().splitlines()
    assert any(line.split() == ["nmod:poss", "1,234", "94.3%", "yes"] for line in lines)
    assert any(line.split() == ["model", "mini_lm"] for line in lines)
    assert any(line.startswith("command") and line.endswith("heedmap syntax a.conllu") for line in lines)


def test_json_has_null_for_what_is_no_number() -> None:
    assert findings().document()["rows"][1]["accuracy"] is None
    assert findings().document()["units"] == {"accuracy": "share"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "a value for each column in row 0"),
        (ROWS[0] | {"more": 1}, "got more in one"),
        (ROWS[0] | {"items": 1.5}, "int64 in column items, row 0, got float"),
        (ROWS[0] | {"items": True}, "int64 in column items, row 0, got bool"),
        (ROWS[0] | {"beats": 1}, "bool in column beats, row 0, got int"),
        (ROWS[0] | {"relation": 1}, "string in column relation"),
    ],
)
def test_rows_that_do_not_fit_their_columns_are_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        findings([row])


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="different names"):
        Findings("a", "b", (Column("x"), Column("x")), [], ABOUT)
    with pytest.raises(InputError, match="a column among relation"):
        findings().column("nothing")


def test_a_place_that_cannot_hold_files_is_refused_and_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InputError, match="which is a file"):
        out_folder(str(file / "below"))
    with pytest.raises(StorageError, match="a place to write tables to"):
        write_findings(findings(), file)
    assert out_folder(None) is None
    assert out_folder(str(tmp_path / "new")) == tmp_path / "new"


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, *_ = write_findings(findings(), tmp_path)
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(StorageError, match="No space left"):
        write_findings(findings([]), tmp_path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["syntax.csv", "syntax.parquet", "syntax.tex"]


def test_the_command_is_known_to_whoever_states_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedmap.cli import findings as room
    from heedmap.cli import statistics

    said: list[str] = []
    monkeypatch.setattr(statistics.command, "callback", lambda **_: said.append(room.command_line()))
    assert main(["statistics", "--json"]) == 0
    assert said == ["heedmap statistics --json"]
