"""Runs that are broken, foreign or malicious: each is one clear RunError, and nothing outside the folder is touched."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedmap.errors import RunError
from heedmap.runs.reader import open_run


@pytest.fixture(scope="module")
def sound(dense: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    layers = [dense.make_layer(dense.CAUSAL, lambda q, k: k <= q, layer=layer) for layer in range(2)]
    return dense.write_run(tmp_path_factory.mktemp("sound") / "run", *layers).path


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


def _edit(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    meta = json.loads((run / "run.json").read_text())
    change(meta)
    (run / "run.json").write_text(json.dumps(meta))


def _refit(run: Path, name: str) -> None:
    """Make the recorded size of a file true again, as a careful forger would."""
    _edit(run, lambda meta: meta["files"].update({name: {"bytes": (run / name).stat().st_size}}))


def _refused(run: Path, *parts: str) -> None:
    with pytest.raises(RunError) as caught:
        open_run(run)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_the_sound_run_opens(run: Path) -> None:
    assert len(open_run(run).heads) == 8


def test_what_is_not_a_run_is_refused(tmp_path: Path, run: Path) -> None:
    _refused(tmp_path / "nowhere", "a run folder", "where nothing is")
    _refused(run / "run.json", "which is a file")
    empty = tmp_path / "empty"
    empty.mkdir()
    _refused(empty, "a run folder with its run.json", "which has none")
    (empty / "run.json").write_text('{"name": "somebody else\'s"}')
    _refused(empty, "format 'heedmap-run'", "got no format")
    (empty / "run.json").write_text('{"format": "tar"}')
    _refused(empty, "format 'heedmap-run'", "got format 'tar'")


def test_a_partial_folder_is_refused_even_when_all_is_in_it(run: Path) -> None:
    _refused(run.rename(run.with_name("run.partial")), "a whole run", "is being written or was interrupted")


def test_a_newer_version_is_refused_with_the_remedy(run: Path) -> None:
    _edit(run, lambda meta: meta.update(version=2, heedmap="9.9.0"))
    _refused(run, "format version 1 or older", "version 2", "'9.9.0'", "update heedmap")
    for version in (0, -1, "1", None, True, 1.0):
        _edit(run, lambda meta, version=version: meta.update(version=version))
        _refused(run, "a format version from 1", repr(version))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"format": "heedmap-run", "version": 1, "cost": NaN}',
        b'{"format": "heedmap-run", "version": 1' + b"0" * 10_000 + b"}",
        b'{"format": "heedmap-run", "version": 1}',
    ],
)
def test_a_run_json_that_is_garbage_is_refused(content: bytes, run: Path) -> None:
    (run / "run.json").write_bytes(content)
    with pytest.raises(RunError) as caught:
        open_run(run)
    assert (
        str(caught.value).count("expected") == str(caught.value).count("got") == 1
    )  # one error, not one inside another


@pytest.mark.parametrize(
    ("where", "entry", "value"),
    [
        ("", "self_check", "passed"),
        ("", "cost", 5),
        ("", "command", "heedmap look"),
        ("", "statistics", ["entropy"]),
        ("model", "name", ["cat"]),
        ("model", "initialised", "3"),
        ("text", "tokens", "12"),
        ("text", "truncated_from", True),
        ("self_check", "rows", "all"),
        ("self_check", "max_abs_error", "small"),
        ("self_check", "passed", "no"),
        ("cost", "seconds", [1]),
        ("cost", "peak_bytes", "much"),
        ("cost.seconds", "total", "long"),
        ("statistics", "entropy", 1),
        ("statistics.entropy", "unit", None),
    ],
)
def test_an_entry_of_another_kind_is_refused_on_opening(where: str, entry: str, value: object, run: Path) -> None:
    def change(meta: dict[str, Any]) -> None:
        inside = meta
        for name in filter(None, where.split(".")):
            inside[name] = inside.get(name) or {}
            inside = inside[name]
        inside[entry] = value

    _edit(run, change)
    _refused(run, f"{where}.{entry} as ".removeprefix("."), repr(value))


def test_a_text_that_was_changed_is_refused_when_it_is_read(run: Path) -> None:
    content = (run / "text.txt").read_bytes()
    (run / "text.txt").write_bytes(b"x" * len(content))
    with pytest.raises(RunError, match=r"text.txt with the sha256 that run.json records .*, got another text"):
        _ = open_run(run).text


def test_what_is_not_known_may_be_null(run: Path) -> None:
    _edit(run, lambda meta: meta.update(self_check=None, command=None, cost={"seconds": {"total": None}}, model={}))
    assert len(open_run(run).heads) == 8


def test_a_run_json_that_is_huge_is_refused_unread(run: Path) -> None:
    with (run / "run.json").open("ab") as file:
        file.truncate(2**40)
    _refused(run, "at most 67108864 bytes")


@pytest.mark.parametrize("name", ["tokens.parquet", "query.parquet", "head.parquet", "text.txt", "inputs.safetensors"])
def test_a_missing_file_is_refused_by_name(name: str, run: Path) -> None:
    (run / name).unlink()
    _refused(run, name, "no such file")


@pytest.mark.parametrize("name", ["text.txt", "tokens.parquet", "head.parquet"])
def test_a_file_that_every_run_has_must_be_listed(name: str, run: Path) -> None:
    _edit(run, lambda meta: meta["files"].pop(name))
    _refused(run, f"{name} among the files")


@pytest.mark.parametrize(
    "name", ["query.parquet", "key.parquet", "distance.parquet", "tokens.parquet", "maps.safetensors", "text.txt"]
)
def test_a_truncated_or_overlong_file_is_refused_on_opening(name: str, run: Path) -> None:
    content = (run / name).read_bytes()
    for changed in (content[:-1], content[: len(content) // 2], b"", content + b"\0"):
        (run / name).write_bytes(changed)
        _refused(run, f"{name} of {len(content)} bytes", f"{len(changed)} bytes")


@pytest.mark.parametrize("name", ["head", "query", "key", "distance"])
def test_a_damaged_table_is_refused_when_it_is_read(name: str, run: Path, sound: Path) -> None:
    path = run / f"{name}.parquet"
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[200] ^= 0xFF
    for changed in (content[: len(content) // 2], b"", b"PAR1", b"\0" * 5000, bytes(flipped)):
        path.write_bytes(changed)
        _refit(run, path.name)
        opened = open_run(run)
        with pytest.raises(RunError, match=f"{name}.parquet as whole Parquet"):
            opened.table(name)
    (run / "text.txt").write_bytes(b"\xff" * len((sound / "text.txt").read_bytes()))
    with pytest.raises(RunError, match=r"text\.txt as UTF-8 text"):
        _ = open_run(run).text
    (run / "tokens.parquet").write_bytes(b"PAR1" * 10)
    _refit(run, "tokens.parquet")
    with pytest.raises(RunError, match=r"tokens\.parquet as whole Parquet"):
        _ = open_run(run).tokens


def test_tables_of_another_shape_are_refused(run: Path) -> None:
    table = pq.read_table(run / "query.parquet", read_dictionary=["part"])
    key = pq.read_table(run / "key.parquet")
    wrong = {
        "column position": table.drop_columns(["position"]),
        "column layer": table.set_column(1, "layer", table.column("layer").cast(pa.int64())),
        "one head for each row group": table,
        "part, layer, head first": table.select(["position", "part", "layer", "head"]),
    }
    for message, changed in wrong.items():
        pq.write_table(changed, run / "query.parquet")
        _refit(run, "query.parquet")
        with pytest.raises(RunError) as caught:
            open_run(run).table("query")
        assert message in str(caught.value)
    with pq.ParquetWriter(run / "query.parquet", table.schema) as writer:
        writer.write_table(table.slice(0, 12))
        writer.write_table(table.slice(0, 12))
    _refit(run, "query.parquet")
    with pytest.raises(RunError, match="several for one head"):
        open_run(run).table("query")
    pq.write_table(key, run / "tokens.parquet")
    _refit(run, "tokens.parquet")
    with pytest.raises(RunError, match=r"column id \(int32\) in tokens\.parquet"):
        _ = open_run(run).tokens


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/passwd", "a/b", "..", ".", "", "a\\b", "C:x", "a\0b", ".hidden", "run.json"]
)
def test_file_names_that_lead_elsewhere_are_refused(name: str, run: Path) -> None:
    (run.parent / "outside").write_text("secret")
    _edit(run, lambda meta: meta["files"].update({name: {"bytes": 6}}))
    _refused(run, "plain file names inside the folder")


def test_a_run_json_that_is_a_link_or_a_pipe_is_refused_unread(run: Path, tmp_path: Path) -> None:
    (run / "run.json").rename(tmp_path / "elsewhere.json")
    (run / "run.json").symlink_to(tmp_path / "elsewhere.json")
    _refused(run, "a plain file for run.json", "a link")
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")  # reading it would wait for ever
    _refused(run, "a plain file for run.json")


def test_links_and_pipes_are_no_files_of_a_run(run: Path) -> None:
    content = (run / "text.txt").read_bytes()
    (run.parent / "secret").write_bytes(content)
    (run / "text.txt").unlink()
    (run / "text.txt").symlink_to(run.parent / "secret")
    _refused(run, "text.txt as a plain file", "a link")
    (run / "text.txt").unlink()
    os.mkfifo(run / "text.txt")
    _refused(run, "text.txt as a plain file")


def _tensors(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def _entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> bytes:
    return json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        _tensors(b"{}", length=2**63),
        _tensors(b"{}", length=2**40),
        _tensors(b"{}", length=100),
        _tensors(b"{"),
        _tensors(b"[]"),
        _tensors(b"\xff\xff"),
        _tensors(b"[" * 100_000),
        _tensors(_entry(), b"\0" * 7),
        _tensors(_entry(), b"\0" * 9),
        _tensors(_entry(offsets=[8, 0]), b"\0" * 8),
        _tensors(_entry(offsets=[8, 16]), b"\0" * 16),
        _tensors(_entry(offsets=[0, 4]), b"\0" * 8),
        _tensors(_entry(shape=[2**40, 2**40]), b"\0" * 8),
        _tensors(_entry(shape=[-2]), b"\0" * 8),
        _tensors(_entry(shape=[True, 2]), b"\0" * 8),
        _tensors(_entry(shape=[1] * 50), b"\0" * 8),
        _tensors(_entry(dtype="U64"), b"\0" * 8),
        _tensors(_entry(dtype=["F32"]), b"\0" * 8),
        _tensors(b'{"a": 3}'),
        _tensors(
            json.dumps({n: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for n in "ab"}).encode(), b"\0" * 8
        ),
    ],
)
@pytest.mark.parametrize("name", ["inputs.safetensors", "maps.safetensors"])
def test_tensor_files_that_break_their_format_are_refused(content: bytes, name: str, run: Path) -> None:
    (run / name).write_bytes(content)
    _refit(run, name)
    _refused(run, f"in {name}")


def test_tensors_of_other_shapes_than_run_json_says_are_refused(run: Path) -> None:
    for name, value in {"query_len": 13, "key_len": 11, "head_dim": 9, "key_heads": 1, "heads": [0, 1]}.items():
        before = (run / "run.json").read_bytes()
        _edit(run, lambda meta, name=name, value=value: meta["layers"][1].update({name: value}))
        _refused(run, "self.1.")
        (run / "run.json").write_bytes(before)
    _edit(run, lambda meta: meta["layers"][1].update(layer=7))
    _refused(run, "tensor self.7.query in inputs.safetensors")


LAYER_CHANGES: list[dict[str, Any]] = [
    {"part": 3},
    {"part": "../x"},
    {"part": ""},
    {"layer": -1},
    {"layer": "0"},
    {"layer": True},
    {"query_heads": 0},
    {"query_heads": 10**30},
    {"heads": []},
    {"heads": [0, 0]},
    {"heads": [99]},
    {"heads": "all"},
    {"key_heads": 3},
    {"query_offset": -1},
    {"scale": "0.1"},
    {"scale": None},
    {"scale": 10**400},
    {"softcap": -1},
    {"sinks": [1]},
    {"sinks": ["1"]},
    {"mask": None},
    {"mask": {}},
    {"mask": {"kind": 3}},
    {"mask": {"kind": "and", "of": []}},
    {"mask": {"kind": "and"}},
    {"mask": {"kind": "causal", "offset": "0"}},
    {"mask": {"kind": "sliding_window"}},
    {"mask": {"kind": "sliding_window", "size": 5, "both_sides": "no"}},
    {"mask": {"kind": "prefix", "length": 10**40}},
    {"mask": {"kind": "padding", "valid": [[3, 1]]}},
    {"mask": {"kind": "packed", "documents": [[0, 1]]}},
    {"cross": 0},
    {"inputs": "yes"},
    {"kernel": None},
    {"requires": "bias"},
]


@pytest.mark.parametrize("change", LAYER_CHANGES, ids=str)
def test_layers_that_make_no_sense_are_refused(change: dict[str, Any], run: Path) -> None:
    _edit(run, lambda meta: meta["layers"][0].update(change))
    _refused(run, "the run is damaged or was changed")


def test_a_mask_nested_without_end_is_refused(run: Path) -> None:
    mask: dict[str, Any] = {"kind": "all"}
    for _ in range(200):
        mask = {"kind": "and", "of": [mask]}
    _edit(run, lambda meta: meta["layers"][0].update(mask=mask))
    _refused(run, "nested at most 32 deep")


@pytest.mark.parametrize("name", ["model", "text", "statistics", "layers", "files"])
def test_a_run_json_that_lacks_an_entry_is_refused(name: str, run: Path) -> None:
    for value in (None, 3, []):
        _edit(run, lambda meta, value=value: meta.update({name: value}))
        _refused(run, name)


def test_what_a_later_heedmap_adds_is_ignored(run: Path) -> None:
    (run / "heads.json").write_text("{}")

    def add(meta: dict[str, Any]) -> None:
        meta["files"]["heads.json"] = {"bytes": 2, "sha256": "…"}
        meta["novelty"] = {"a": 1}
        meta["layers"][0]["novelty"] = 3

    _edit(run, add)
    opened = open_run(run)
    assert not math.isnan(float(opened.weights(0, 0).sum()))
    assert np.isfinite(opened.map(0, 0)).all()
