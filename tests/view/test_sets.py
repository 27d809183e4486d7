"""A set opens like a run: its page, its documents, and the runs that it stores below them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.made_sets import json_lines, model_folder, texts

from heedmap.cli.main import main
from heedmap.sets.reader import TextSet
from heedmap.textsets.scan import scan
from heedmap.view.page import SCRIPT, SET_SCRIPT, script, set_script
from heedmap.view.set_server import SetServer


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> TextSet:
    folder = tmp_path_factory.mktemp("view")
    given = [*texts(12, 12), "cat </script> <b>bold</b>", ""]
    return scan(json_lines(folder / "texts.jsonl", given), model_folder(folder / "model"), out=folder / "set", keep=1)


@pytest.fixture(scope="module")
def get(found) -> Iterator[Callable[..., tuple[int, str, bytes]]]:
    with SetServer(found) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        at = urlsplit(server.url)

        def ask(path: str, **headers: str) -> tuple[int, str, bytes]:
            connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
            connection.request("GET", at.path + quote(path), headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return answer.status, answer.getheader("Content-Type") or "", content

        yield ask
        server.shutdown()


def test_the_page_and_its_script_are_served(get) -> None:
    status, kind, page = get("")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert f'src="{SET_SCRIPT}"'.encode() in page
    assert get(SET_SCRIPT)[2].decode() == set_script()


def test_the_overview_has_every_head_with_its_means(get, found) -> None:
    status, kind, content = get("set/overview.json")
    assert (status, kind) == (200, "application/json")
    overview = json.loads(content)
    assert [tuple(head) for head in overview["heads"]] == found.heads
    assert (overview["texts"], overview["refused"]) == (13, 1)
    means = {(row["part"], row["layer"], row["head"]): row["mean"] for row in found.table("means").to_pylist()
             if row["statistic"] == "entropy"}  # fmt: skip
    assert overview["means"]["entropy"] == [means[head] for head in found.heads]


def test_a_head_has_its_distributions_and_the_texts_that_show_them(get, found) -> None:
    page = json.loads(get("set/heads/3.json")[2])
    deciles = [row for row in page["deciles"] if row["statistic"] == "entropy"]
    assert [row["decile"] for row in deciles] == list(range(11))
    excerpts = {row["text"]: row["excerpt"] for row in found.table("texts").to_pylist()}
    for row in deciles:
        assert page["examples"][str(row["text"])]["excerpt"] == excerpts[row["text"]]
        assert page["examples"][str(row["text"])]["cut"] is False
    assert len(page["map"]) == len(page["map"][0]) == 32
    assert "NaN" not in get("set/heads/3.json")[2].decode()


def test_a_text_leads_to_its_run_or_to_the_command_that_makes_one(get, found, capsys) -> None:
    page = json.loads(get("set/heads/0.json")[2])
    stored = [example for example in page["examples"].values() if example["run"]]
    (name,) = {example["run"] for example in stored}
    assert get(name)[2].startswith(b"<!doctype html>")
    assert get(f"{name}{SCRIPT}")[2].decode() == script()
    assert json.loads(get(f"{name}runs/0/run.json")[2])["format"] == "heedmap-run"
    assert get(f"{name}runs/0/run.json", Range="bytes=0-0")[2] == b"{"

    number = next(int(text) for text, example in page["examples"].items() if not example["run"])
    command = page["examples"][str(number)]["command"]
    assert command == f"heedmap look {number} --of {found.path}"
    assert main(command.split()[1:]) == 0
    capsys.readouterr()
    text = {row["text"]: row["excerpt"] for row in found.table("texts").to_pylist()}[number]
    assert get(f"text-{number}/runs/0/text.txt")[2].decode() == text
    again = json.loads(get("set/heads/0.json")[2])["examples"][str(number)]
    assert again["run"] == f"text-{number}/"


@pytest.mark.parametrize(
    "path",
    ["set/heads/8.json", "set/heads/-1.json", "set/heads/x.json", "set.json", "totals/means.parquet", "runs/0/run.json",
     "text-99999/", "text-99999/runs/0/run.json", "text-1/../set.json", "text-0/runs/1/run.json", SCRIPT],
)  # fmt: skip
def test_nothing_else_is_served(get, path: str) -> None:
    assert get(path)[0] == 404


def test_a_set_does_not_open_beside_runs(found, capsys) -> None:
    assert main(["view", str(found.path), str(found.path)]) == 2
    assert "expected one set of texts, or runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["look", "99", "--of", "{set}"], "0 to 13, got 99"),
        (["look", "13", "--of", "{set}"], "got 13, left out: empty"),
        (["look", "cat", "--of", "{set}"], "expected the number of a text with --of, got 'cat'"),
        (["look", "1", "--of", "nowhere"], "expected the folder of a set"),
    ],
)
def test_a_text_that_is_not_there_is_one_line(found, capsys, arguments: list[str], line: str) -> None:
    assert main([argument.format(set=found.path) for argument in arguments]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_a_source_that_changed_gives_no_other_text(found, tmp_path: Path, capsys) -> None:
    source = Path(found.meta["plan"]["texts"]["where"])
    before = source.read_bytes()
    source.write_bytes(before.replace(b'"text": "', b'"text": "and '))
    try:
        assert main(["look", "1", "--of", str(found.path)]) == 2
    finally:
        source.write_bytes(before)
    assert "got another text, or none; the source has changed since" in capsys.readouterr().err
