"""``heedmap scan``, ``query`` and ``compare`` on the command line."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from tests.made_sets import json_lines, model_folder, texts

from heedmap.cli.main import main
from heedmap.textsets.scan import scan


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("scan")
    return [str(json_lines(folder / "texts.jsonl", [*texts(8), "", 3], "body")), "--column", "body", "--model",
            str(model_folder(folder / "model"))]  # fmt: skip


@pytest.fixture(scope="module")
def made(given, tmp_path_factory) -> str:
    out = str(tmp_path_factory.mktemp("sets") / "set")
    assert main(["scan", *given, "--out", out, "--shard-texts", "4"]) == 0
    return out


def test_the_summary_says_what_heads_do_and_what_was_left_out(given, made, capsys) -> None:
    assert main(["scan", *given, "--out", made, "--shard-texts", "4"]) == 0
    printed = capsys.readouterr().out
    assert "8 texts, " in printed
    assert "type of head" in printed
    assert "left out: 2 texts" in printed
    assert "1 × no text in 'body' but int" in printed
    assert "self-check: weights agree" in printed
    assert "\033" not in printed


def test_reasons_beyond_the_first_are_counted(given, tmp_path: Path, capsys) -> None:
    bad = json_lines(tmp_path / "bad.jsonl", [*texts(1), "", " ", 3, [], None, {}], "body")
    assert main(["scan", str(bad), *given[1:], "--out", str(tmp_path / "set")]) == 0
    assert "  and 1 more reason, in the table texts" in capsys.readouterr().out


def test_json_is_one_document(given, made, capsys) -> None:
    assert main(["scan", *given, "--out", made, "--shard-texts", "4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["texts"] == 8
    assert document["reasons"] == {"empty": 1, "no text in 'body' but int": 1}
    assert document["self_check"]["passed"] is True


def test_what_a_library_says_does_not_join_the_result(given, made, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def talking(*arguments, **options):
        sys.stdout.write("(raylet) A worker died\n")
        return scan(*arguments, **options)

    monkeypatch.setattr("heedmap.textsets.scan.scan", talking)
    assert main(["scan", *given, "--out", made, "--shard-texts", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["texts"] == 8
    assert "(raylet) A worker died" in err


def test_other_arguments_are_one_line_and_exit_code_2(given, made, capsys) -> None:
    assert main(["scan", *given, "--out", made]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "got shard_texts=1024; give the same arguments" in err
    assert err.count("\n") == 1


def test_an_interruption_says_what_is_kept(given, tmp_path: Path, capsys, monkeypatch) -> None:
    from heedmap.textsets import scan as module

    write = module.write_shard
    written: list[int] = []

    def interrupted(folder, shard, contents):
        if written:
            raise KeyboardInterrupt
        written.append(shard.number)
        return write(folder, shard, contents)

    monkeypatch.setattr(module, "write_shard", interrupted)
    assert main(["scan", *given, "--out", str(tmp_path / "set"), "--shard-texts", "4"]) == 130
    err = capsys.readouterr().err
    assert f"kept in {tmp_path / 'set'}: 4 texts in 1 finished shard; the same command goes on from there" in err


def test_a_question_is_answered_as_a_table_csv_or_json(made, capsys) -> None:
    question = "SELECT layer, head, mean, 'a,b' AS said FROM means WHERE statistic = 'entropy' ORDER BY ALL"
    assert main(["query", made, question]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["layer", "head", "mean", "said"]
    assert len([line for line in table if "a,b" in line]) == 8
    assert main(["query", made, question, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 8
    assert rows[0]["said"] == "a,b"
    assert main(["query", made, question, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["columns"] == ["layer", "head", "mean", "said"]
    assert document["rows"][0][2] == pytest.approx(float(rows[0]["mean"]))


@pytest.mark.parametrize(
    "question",
    [
        "SHOW TABLES",
        "DESCRIBE means",
        "WITH a AS (SELECT 1 AS one) SELECT one FROM a;",
        "/* a column each */ PIVOT means ON statistic USING avg(mean) GROUP BY layer",
        "SELECT * FROM (PIVOT means ON statistic USING avg(mean) GROUP BY layer)",
        "FROM about",
    ],
)
def test_whatever_only_asks_is_answered(made, capsys, question: str) -> None:
    assert main(["query", made, question, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]


def test_without_a_question_the_views_are_listed(made, capsys) -> None:
    assert main(["query", made, "--json"]) == 0
    views = {row[0]: row[2] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert "statistic" in views["means"]
    assert set(views) >= {"texts", "heads", "deciles", "about"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["query", "{set}", "SELECT nothing"], "[query] expected SQL that DuckDB takes"),
        (["query", "{set}", "SELECT 1; SELECT 2"], "[query] expected a question in SQL, got 2 statements"),
        (
            ["query", "{set}", "SELECT excerpt::INT FROM texts", "--csv"],
            "[query] expected SQL that DuckDB takes, got Conversion Error",
        ),
        (["query", "{set}", " ;"], "[query] expected a question in SQL, got nothing"),
        (["query", "{set}", "DROP VIEW means"], "[query] expected SQL that only asks: SELECT …, got DROP"),
        (["query", "{set}", "COPY means TO 'means.csv'"], "[query] expected SQL that only asks: SELECT …, got COPY"),
        (
            ["query", "{set}", "COPY (PIVOT means ON statistic USING avg(mean)) TO 'means.csv'"],
            "[query] expected SQL that only asks: SELECT …, got COPY",
        ),
        (["query", "nowhere"], "[open_set] expected the folder of a set"),
        (["compare", "{set}", "nowhere"], "[open_set] expected the folder of a set"),
        (["compare", "{set}", "{set}", "--statistics", "speed"], "[compare] expected a value of both sets"),
    ],
)
def test_mistakes_are_one_line(made, capsys, arguments: list[str], line: str) -> None:
    assert main([argument.format(set=made) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_changes_are_listed_and_written(made, given, tmp_path: Path, capsys) -> None:
    other = str(tmp_path / "other")
    model = str(model_folder(tmp_path / "model", seed=4))
    assert main(["scan", *given[:-1], model, "--out", other]) == 0
    capsys.readouterr()
    assert (
        main(["compare", made, other, "--top", "3", "--statistics", "entropy", "--out", str(tmp_path / "found")]) == 0
    )
    printed = capsys.readouterr().out
    assert "What changed from set to other" in printed
    assert "by chance alone" in printed
    assert (tmp_path / "found" / "changes.csv").read_text().count(",entropy,") == 8
    assert main(["compare", made, other, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["texts"] == 8
    assert document["about"]["revision"] == f"none, from {given[-1]} → none, from {model}"
    assert {row["statistic"] for row in document["rows"]} >= {"entropy", "previous"}
