from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedmap.cli.main import main
from heedmap.errors import InputError, StorageError
from heedmap.runs.reader import Run
from heedmap.view import page
from heedmap.view.export import export
from heedmap.view.files import RunFiles


@pytest.fixture(autouse=True)
def _short_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes in these tests do not depend on the viewer's own."""
    monkeypatch.setattr(page, "script", lambda: "export default '</script><!--'")


def index_of(text: str) -> dict[str, Any]:
    found = re.search(r'id="heedmap-index">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def contents(out: Path, run: int = 0) -> dict[str, dict[int, bytes]]:
    """What an exported file holds: file → start → bytes."""
    text = out.read_text("utf-8")
    index = index_of(text)
    blocks = dict(re.findall(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>', text))
    found: dict[str, dict[int, bytes]] = {}
    for name, entry in index["runs"][run]["files"].items():
        for start, length, block, packed in entry["chunks"]:
            data = base64.b64decode(blocks[block])
            data = gzip.decompress(data) if packed else data
            assert len(data) == length
            found.setdefault(name, {})[start] = data
    return found


@pytest.fixture(scope="module")
def larger(made: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Sixteen heads over eighty tokens, with maps that do not pack away to nothing."""
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.ones(80), (4, 4, 80))
    return made.make_run(tmp_path_factory.mktemp("runs") / "larger", weights)


def test_a_small_run_is_exported_whole(run: Run, tmp_path: Path) -> None:
    [result] = export([run], tmp_path / "out.html")
    assert result.note is None
    assert set(result.exact) == set(run.heads)
    held = contents(tmp_path / "out.html")
    files = RunFiles(run)
    assert set(held) == set(files.names) - {"derived/profiles.safetensors"}, "the tables themselves are there"
    for name, chunks in held.items():
        if name == "maps.safetensors":  # computed from query and key in the browser
            continue
        whole = files.read(name, 0)
        assert b"".join(chunks[start] for start in sorted(chunks)) == whole, name


def test_what_is_inside_is_the_bytes_of_the_run(larger: Run, tmp_path: Path) -> None:
    export([larger], tmp_path / "out.html", max_bytes=300_000)
    files = RunFiles(larger)
    for name, chunks in contents(tmp_path / "out.html").items():
        for start, data in chunks.items():
            assert data == files.read(name, start, start + len(data))


@pytest.mark.parametrize("max_bytes", [220_000, 350_000, 600_000])
def test_the_file_stays_within_its_size_and_says_what_it_left_out(larger: Run, tmp_path: Path, max_bytes: int) -> None:
    [result] = export([larger], tmp_path / "out.html", max_bytes=max_bytes)
    assert (tmp_path / "out.html").stat().st_size <= max_bytes
    assert 0 < len(result.exact) < 16
    assert result.note is not None
    assert f"exact weights of {len(result.exact)} of 16 heads" in result.note
    [entry] = index_of((tmp_path / "out.html").read_text("utf-8"))["runs"]
    assert entry["note"] == result.note


def test_more_room_holds_more_heads(larger: Run, tmp_path: Path) -> None:
    counts = [
        len(export([larger], tmp_path / "out.html", max_bytes=size)[0].exact) for size in (220_000, 450_000, 10_000_000)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[1] < counts[2] == 16


def test_heads_that_are_asked_for_come_first(larger: Run, tmp_path: Path) -> None:
    wanted = [("self", 3, 2), ("self", 1, 0)]
    [result] = export([larger], tmp_path / "out.html", max_bytes=400_000, first=wanted)
    assert list(result.exact[:2]) == wanted
    assert result.note is not None
    assert "asked for" not in result.note


def test_heads_that_were_asked_for_and_did_not_fit_are_named(larger: Run, tmp_path: Path) -> None:
    wanted = [key for key in larger.heads if key[1] == 3]
    [result] = export([larger], tmp_path / "out.html", max_bytes=222_000, first=wanted)
    missed = [f"{layer}.{head}" for _, layer, head in wanted if ("self", layer, head) not in result.exact]
    assert 0 < len(missed) < len(wanted), "some fit and some do not"
    assert result.note is not None
    assert f"Of the heads asked for, {', '.join(missed)} did not fit." in result.note


def test_a_size_that_is_too_small_names_the_smallest(larger: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--max-bytes 10,000; allow more bytes"):
        export([larger], tmp_path / "out.html", max_bytes=10_000)
    assert not list(tmp_path.iterdir())


def test_the_page_runs_its_own_script_and_nothing_else(run: Run, tmp_path: Path) -> None:
    export([run], tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    code = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    assert policy is not None
    assert code is not None
    digest = base64.b64encode(hashlib.sha256(code[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert not re.search(r'(src|href)="https?:', text)


def test_several_runs_go_into_one_file(run: Run, larger: Run, tmp_path: Path) -> None:
    results = export([run, larger], tmp_path / "out.html")
    assert [result.name for result in results] == ["small", "larger"]
    assert contents(tmp_path / "out.html", 1)["text.txt"][0] == larger.text.encode()


@pytest.fixture(scope="module")
def tabled(made: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Six heads over 600 tokens without query and key: tables outweigh all else."""
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(np.ones(600), (2, 3, 600))
    return made.make_run(tmp_path_factory.mktemp("runs") / "tabled", weights, keep_inputs=False)


def least(run: Run, tmp_path: Path) -> int:
    """The smallest file of a run."""
    with pytest.raises(InputError) as error:
        export([run], tmp_path / "none.html", max_bytes=1)
    return int(re.sub(r"\D", "", re.search(r"maps, ([\d,]+) bytes", str(error.value))[1]))  # pyright: ignore[reportOptionalSubscript]


@pytest.mark.parametrize(
    ("room", "holds", "rest"),
    [
        (5_000, "no tables", "means"),
        (40_000, "no tables", "pooled profiles"),
        (120_000, "the tables of", "pooled profiles"),
        (400_000, "no full maps", "tables"),
    ],
)
def test_tables_that_were_left_out_are_told_of_a_run_without_inputs(
    tabled: Run, tmp_path: Path, room: int, holds: str, rest: str
) -> None:
    [result] = export([tabled], tmp_path / "out.html", max_bytes=least(tabled, tmp_path) + room)
    assert result.note is not None
    assert result.note.startswith(f"To stay within its size, this file holds {holds}")
    assert result.note.endswith(f" a small map and {rest}.")
    assert "exact" not in result.note, "there were no exact weights to leave out"
    assert (f"the tables of {result.tables} of 6 heads" in result.note) == (0 < result.tables < 6)
    assert ("derived/profiles.safetensors" in contents(tmp_path / "out.html")) == (rest != "means")


def test_room_that_no_exact_head_fits_into_takes_tables_and_maps(larger: Run, tmp_path: Path) -> None:
    """Heads are looked at in order: query and key of one do not fit, its rows do, and so on to the last byte."""
    size = least(larger, tmp_path) + 40_000
    [result] = export([larger], tmp_path / "out.html", max_bytes=size)
    assert len(result.exact) < result.tables
    assert size - (tmp_path / "out.html").stat().st_size < 12_000, "less room is left than one head's tables take"


def test_a_place_that_cannot_be_written_is_one_error(run: Run, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="to write"):
        export([run], tmp_path / "missing" / "out.html")


def test_the_command_tells_what_it_left_out(larger: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.html"
    assert main(["export", str(larger.path), str(out), "--max-bytes", "400K", "--heads", "2.3"]) == 0
    said = capsys.readouterr().out
    assert "of 16 heads" in said
    assert "Exact are 2.3, " in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--max-bytes", "ten"], "10M"),
        (["--heads", "9.9"], "9.9: none of its heads"),
        (["--heads", "0.1,9.9"], "got 9.9: none of its heads"),
        (["--heads", "0-2"], "got 2: none of its heads"),
        (["--layers", "0,7"], "got layer 7: none of its heads"),
        (["--layers", "0", "--heads", "1.1"], "got 1.1: none of its heads"),
        (["--layers", "x"], "0-5,8"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["export", str(run.path), str(tmp_path / "out.html"), *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_the_last_name_must_be_a_page(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run.path), str(run.path)]) == 2
    assert ".html" in capsys.readouterr().err
