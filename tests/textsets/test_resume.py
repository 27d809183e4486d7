"""Stopped anywhere, a scan goes on to the same bits; nothing else than the same scan may go on with a set."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.made_sets import json_lines, texts

from heedmap.capture.models import resolve
from heedmap.errors import HeedmapError, InputError, RunError, StorageError
from heedmap.sets.reader import open_set
from heedmap.textsets import scan as scan_module
from heedmap.textsets.measurer import Measurer
from heedmap.textsets.scan import scan

CHANGES = ("created", "seconds")


def content(folder: Path) -> dict[str, Any]:
    """Every file of a set, without when it was made and how long that took."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            found[name] = path.read_bytes() if path.suffix != ".json" else _timeless(json.loads(path.read_bytes()))
    return found


def _timeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _timeless(value) for name, value in document.items() if name not in CHANGES}
    return document


@pytest.fixture(scope="module")
def given(model_folder, tmp_path_factory) -> dict[str, Any]:
    """The arguments of a small scan of three shards, one of them without a text that can be measured."""
    folder = tmp_path_factory.mktemp("given")
    source = json_lines(folder / "texts.jsonl", [*texts(2, 12), "", "", "", "", *texts(2, 9, seed=8)])
    loaded = resolve(model_folder())
    return {"texts": source, "model": loaded.model, "tokenizer": loaded.tokenizer, "shard_texts": 3}


@pytest.fixture(scope="module")
def whole(given, tmp_path_factory) -> dict[str, Any]:
    """The set of an uninterrupted scan."""
    out = tmp_path_factory.mktemp("whole") / "set"
    scan(**given, out=out)
    return content(out)


class PowerCutError(BaseException):
    """Nothing that runs afterwards may count on."""


@pytest.fixture
def cut_power(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[int]]]:
    """``cut_power(n)``: the n-th file from now on never gets its name; returns a list that counts."""
    rename = Path.replace

    def install(after: int) -> list[int]:
        count = [0]

        def failing(self: Path, target: Path) -> Path:
            if count[0] == after:
                raise PowerCutError
            count[0] += 1
            return rename(self, target)

        monkeypatch.setattr(Path, "replace", failing)
        return count

    yield install
    monkeypatch.setattr(Path, "replace", rename)


def test_power_that_is_cut_before_any_file_appears_changes_nothing(given, whole, cut_power, tmp_path: Path) -> None:
    files = len(whole)
    for after in range(files):
        out = tmp_path / f"set{after}"
        cut_power(after)
        with pytest.raises(PowerCutError):
            scan(**given, out=out)
        with pytest.raises(RunError):
            open_set(out)
        cut_power(files)
        scan(**given, out=out)
        assert content(out) == whole, after
        shutil.rmtree(out)
    assert cut_power(files) == [0]


def test_a_finished_shard_is_never_measured_again(
    given, whole, cut_power, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    measure = Measurer.shard

    def counting(self: Measurer, job: Any) -> Any:
        measured.append(job.number)
        return measure(self, job)

    monkeypatch.setattr(Measurer, "shard", counting)
    cut_power(1 + 4 + 1)  # the plan, a shard with its marker, a file of the second
    with pytest.raises(PowerCutError):
        scan(**given, out=tmp_path / "set")
    cut_power(len(whole))
    measured.clear()
    scan(**given, out=tmp_path / "set")
    assert measured == [1, 2]
    measured.clear()
    scan(**given, out=tmp_path / "set")
    assert measured == []


def test_a_damaged_file_of_a_finished_set_is_made_again(given, whole, tmp_path: Path) -> None:
    out = tmp_path / "set"
    scan(**given, out=out)
    (out / "heads/shard=00000/part.parquet").write_bytes(b"cut")
    (out / "totals/means.parquet").unlink()
    with pytest.raises(RunError, match=r"means\.parquet"):
        open_set(out)
    scan(**given, out=out)
    assert content(out) == whole


def test_a_changed_byte_of_a_shards_sums_is_told_with_the_way_out(given, whole, tmp_path: Path) -> None:
    out = tmp_path / "set"
    scan(**given, out=out)
    sums = out / "sums/shard=00002.safetensors"
    sums.write_bytes(sums.read_bytes()[:-1] + bytes([sums.read_bytes()[-1] ^ 1]))
    (out / "set.json").unlink()
    with pytest.raises(RunError, match=r"sums of a shard.* other numbers than were .*; remove .*shard=00002\.json"):
        scan(**given, out=out)
    (out / "shards/shard=00002.json").unlink()
    scan(**given, out=out)
    assert content(out) == whole


def test_half_a_file_that_a_dead_process_left_is_no_obstacle(given, whole, tmp_path: Path) -> None:
    out = tmp_path / "set"
    out.mkdir()
    (out / "plan.json.partial").write_bytes(b'{"format"')
    scan(**given, out=out)
    assert content(out) == whole


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"shard_texts": 4}, "shard_texts=3, got shard_texts=4; give the same arguments"),
        ({"max_tokens": 5}, "max_tokens=None, got max_tokens=5"),
        ({"statistics": ["induction"]}, "statistics=[], got statistics=['induction']"),
        ({"limit": 3}, "limit=None, got limit=3"),
        ({"layers": [0]}, "layers=None, got layers=[0]"),
    ],
)
def test_other_arguments_do_not_go_on_with_a_set(
    given, tmp_path: Path, change: dict[str, Any], line: str, cut_power
) -> None:
    cut_power(5)
    with pytest.raises(PowerCutError):
        scan(**given, out=tmp_path / "set")
    cut_power(1000)
    with pytest.raises(RunError) as caught:
        scan(**given | change, out=tmp_path / "set")
    assert line in str(caught.value)


def test_a_scan_that_kept_nothing_gives_way_to_the_corrected_one(given, whole, tmp_path: Path) -> None:
    out = tmp_path / "set"
    for mistake in ({"model": "no-such-folder/"}, {"limit": 3, "layers": [9]}):
        with pytest.raises(HeedmapError):
            scan(**given | mistake, out=out)
    scan(**given, out=out)
    assert content(out) == whole


def test_a_wrong_column_is_refused_before_anything_is_kept(given, whole, tmp_path: Path) -> None:
    out = tmp_path / "set"
    line = r"8 entries without one; the first, texts\.jsonl 1: no field 'body'; there are 'text'; name the field with"
    with pytest.raises(InputError, match=line):
        scan(**given, column="body", out=out)
    assert not out.exists()
    scan(**given, out=out)
    assert content(out) == whole


def test_shards_without_one_measured_text_give_way(given, whole, tmp_path: Path, model_folder) -> None:
    out = tmp_path / "set"
    source = Path(given["texts"])
    good = source.read_bytes()
    mistakes = [
        (b'{"text": ""}\n' * 7, {}),
        (b'{"text": " "}\n' * 2, {"shard_texts": 1}),
        (good, {"limit": 3, "heads": [9]}),
    ]
    try:
        for texts, mistake in mistakes:
            source.write_bytes(texts)
            with pytest.raises(InputError):
                scan(**given | mistake, out=out)
    finally:
        source.write_bytes(good)
    (out / "shards").mkdir(exist_ok=True)
    (out / "shards" / "shard=00000.json.partial").write_bytes(b"{")
    scan(**given, out=out)
    assert content(out) == whole


def test_texts_that_were_mended_are_measured_by_the_same_command(given, whole, tmp_path: Path) -> None:
    source = tmp_path / "texts.jsonl"
    lines = Path(given["texts"]).read_text().splitlines(keepends=True)
    source.write_text('{"text": ""}\n' * len(lines))
    arguments = given | {"texts": source, "out": tmp_path / "set"}
    with pytest.raises(InputError, match="none of which can be; the first: empty"):
        scan(**arguments)
    source.write_text("".join(lines))
    found = scan(**arguments)
    assert (found.meta["texts"], found.meta["refused"]) == (4, 4)
    same = {name: made for name, made in content(tmp_path / "set").items() if not name.endswith(".json")}
    assert same == {name: made for name, made in whole.items() if not name.endswith(".json")}


@pytest.mark.parametrize("name", ["letter.txt", "texts/shard=00000/mine.csv", "shards/notes"])
def test_nothing_that_is_not_a_shard_s_is_removed(given, tmp_path: Path, name: str) -> None:
    out = tmp_path / "set"
    source = json_lines(tmp_path / "texts.jsonl", [""])
    with pytest.raises(InputError, match="none of which can be"):
        scan(**given | {"texts": source}, out=out)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("dear")
    with pytest.raises(RunError, match=r"the arguments that .* was begun with"):
        scan(**given, out=out)
    assert (out / name).read_text() == "dear"


def test_texts_that_changed_do_not_go_on_with_a_set(given, tmp_path: Path) -> None:
    source = tmp_path / "texts.jsonl"
    shutil.copy(given["texts"], source)
    arguments = given | {"texts": source, "out": tmp_path / "set"}
    scan(**arguments)
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join([*lines[:4], '{"text": "another"}\n', *lines[5:]]))
    with pytest.raises(InputError, match=r"others in shard 1, from texts\.jsonl 4 on"):
        scan(**arguments)
    source.write_text("".join(lines[:3]))
    with pytest.raises(RunError, match="fewer: there are shards of texts beyond their end"):
        scan(**arguments)


def test_a_folder_of_something_else_is_left_alone(given, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").write_text("dear")
    with pytest.raises(RunError, match=r"letters with love\.txt in it"):
        scan(**given, out=tmp_path / "letters")
    with pytest.raises(RunError, match=r"a folder for the set, got the file"):
        scan(**given, out=tmp_path / "letters" / "love.txt")
    with pytest.raises(StorageError, match=r"love\.txt/set, got .*love\.txt, which is a file; choose another folder"):
        scan(**given, out=tmp_path / "letters" / "love.txt" / "set")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["love.txt"]


def test_a_file_in_the_way_is_told_as_it_is(given, whole, tmp_path: Path, cut_power) -> None:
    out = tmp_path / "set"
    cut_power(1)
    with pytest.raises(PowerCutError):
        scan(**given, out=out)
    shutil.rmtree(out / "texts")
    (out / "texts").write_text("dear")
    cut_power(len(whole))
    with pytest.raises(StorageError, match=r"texts/shard=00000/part\.parquet, got .*; choose another folder"):
        scan(**given, out=out)
    assert (out / "texts").read_text() == "dear"
    (out / "texts").unlink()
    scan(**given, out=out)
    assert content(out) == whole


def test_a_set_goes_on_and_finds_its_model_from_anywhere(
    given, model_folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(model_folder(), tmp_path / "model")
    arguments = given | {"tokenizer": None, "out": tmp_path / "set"}
    monkeypatch.chdir(tmp_path)
    made = scan(**arguments | {"model": "./model"})
    assert made.meta["plan"]["model"] == str(tmp_path / "model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    scan(**arguments | {"model": "../model"})


@pytest.mark.skipif(os.name != "posix", reason="locks as POSIX has them")
def test_two_scans_at_once_do_not_share_a_set(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second(*arguments: Any) -> Any:
        with pytest.raises(RunError, match="to be the only writer"):
            scan(**given, out=tmp_path / "set")
        return finish(*arguments)

    finish = scan_module.finish
    monkeypatch.setattr(scan_module, "finish", second)
    scan(**given, out=tmp_path / "set")


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_kill_9_at_any_time_changes_nothing(given, whole, model_folder, tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["heedmap.textsets.scan", "transformers.models.bert.modeling_bert"])
    arguments = given | {"model": str(model_folder()), "tokenizer": None, "threads": 1}

    def begun(out: Path) -> Any:
        process = context.Process(target=scan, kwargs=arguments | {"out": out})
        process.start()
        return process

    first = begun(tmp_path / "first")  # the server starts with it
    first.join(120)
    at = time.monotonic()
    second = begun(tmp_path / "second")
    second.join(120)
    duration = time.monotonic() - at
    assert (first.exitcode, second.exitcode) == (0, 0)
    wanted = content(tmp_path / "first")
    assert content(tmp_path / "second") == wanted

    draw = random.Random(11)
    out, kills = tmp_path / "set", 0
    while kills < 5:
        process = begun(out)
        process.join(draw.uniform(0.2, 1.0) * duration)
        if process.exitcode is None:
            process.kill()
            kills += 1
        process.join(60)
        if process.exitcode == 0:
            assert content(out) == wanted
            shutil.rmtree(out)
    last = begun(out)
    last.join(120)
    assert last.exitcode == 0
    assert content(out) == wanted


@pytest.mark.parametrize("damage", ["", "{", "[]"])
def test_a_damaged_plan_is_refused_with_the_way_out(given, tmp_path: Path, damage: str) -> None:
    out = tmp_path / "set"
    scan(**given, out=out)
    (out / "plan.json").write_text(damage)
    with pytest.raises(RunError, match=r"plan\.json as heedmap wrote it, .*put it back from a copy, or choose another"):
        scan(**given, out=out)


@pytest.mark.parametrize("damage", ["", "[]", "{}"])
@pytest.mark.parametrize("name", ["set.json", "shards/shard=00000.json"])
def test_a_damaged_document_is_made_again(given, whole, tmp_path: Path, name: str, damage: str) -> None:
    out = tmp_path / "set"
    scan(**given, out=out)
    (out / name).write_text(damage)
    scan(**given, out=out)
    assert content(out) == whole
