"""A run appears whole or not at all, whatever ends its writer, and replaces nothing that is not a run."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from heedmap.errors import InputError, RunError, StorageError
from heedmap.runs.reader import open_run
from heedmap.runs.writer import RunWriter

HERE = Path(__file__).parent


def test_an_error_in_the_middle_removes_what_was_written(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    for error in (ValueError, KeyboardInterrupt, SystemExit):

        def interrupted(error: type[BaseException] = error) -> None:
            with RunWriter(tmp_path / "run") as writer:
                writer.source("text")
                writer.layer(layer.entry, layer.measurements, layer.query, layer.key)
                assert (tmp_path / "run.partial" / "inputs.safetensors").exists()
                raise error

        with pytest.raises(error):
            interrupted()
        assert list(tmp_path.iterdir()) == []


def test_folders_made_for_a_run_that_fails_go_with_it(dense: ModuleType, tmp_path: Path) -> None:
    def failing(path: str) -> None:
        with RunWriter(tmp_path / path) as writer:
            writer.source("text")
            raise KeyboardInterrupt

    (tmp_path / "mine").mkdir()
    for path in ("new/er/run", "mine/run", "mine/new/run"):
        with pytest.raises(KeyboardInterrupt):
            failing(path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    (tmp_path / "mine" / "run.partial").write_text("in the way")
    with pytest.raises(RunError), RunWriter(tmp_path / "new" / ".." / "mine" / "run"):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", ["", ".", "..", "/", "runs/.."])
def test_a_folder_without_a_name_of_its_own_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="a name for the folder of the run"):
        RunWriter(path, overwrite=True)
    assert list(tmp_path.iterdir()) == []


def test_a_block_left_without_finish_leaves_nothing(dense: ModuleType, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run") as writer:
        writer.tokens(dense.token_columns(3))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="a writer that is open"):
        writer.tokens(dense.token_columns(3))


WRITER = """
import importlib.util, os, signal, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("dense", sys.argv[1])
dense = importlib.util.module_from_spec(spec)
sys.modules["dense"] = dense
spec.loader.exec_module(dense)
point = sys.argv[3]

def die(*arguments, **keywords):
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, count):
    real, seen = getattr(owner, name), []
    def counted(*arguments, **keywords):
        seen.append(1)
        if len(seen) == count:
            die()
        return real(*arguments, **keywords)
    setattr(owner, name, counted)

import heedmap.runs.folder as folder, heedmap.runs.tables as tables, heedmap.runs.writer as writer
match point:
    case "among the row groups": before(tables.pq.ParquetWriter, "write_table", 8)
    case "among the tensors": before(writer.TensorFileWriter, "write", 7)
    case "before run.json": writer.dump = die
    case "before the folder is flushed": folder.sync_folder = die
    case "before its name": before(Path, "rename", 1)
    case "between two names": before(Path, "rename", 2)
    case "before the earlier run is removed": folder.shutil.rmtree = die
layers = [dense.make_layer(layer=layer, seed=layer) for layer in range(2)]
dense.write_run(Path(sys.argv[2]), *layers, overwrite=True)
"""

POINTS = [
    "among the row groups",
    "among the tensors",
    "before run.json",
    "before the folder is flushed",
    "before its name",
    "between two names",
    "before the earlier run is removed",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_that_is_killed_leaves_no_folder_that_opens_as_whole(
    point: str, dense: ModuleType, tmp_path: Path
) -> None:
    earlier = dense.make_layer(seed=9)
    dense.write_run(tmp_path / "run", earlier)
    arguments = [sys.executable, "-c", WRITER, str(HERE / "dense.py"), str(tmp_path / "run"), point]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    with pytest.raises(RunError):
        open_run(tmp_path / "run.partial")
    if point == "between two names":
        with pytest.raises(RunError, match=r"the run that stood there is at .*run\.replaced; rename it back"):
            open_run(tmp_path / "run")
    else:
        layers = open_run(tmp_path / "run").layers
        assert len(layers) == (2 if point == "before the earlier run is removed" else 1)
    with pytest.raises(ValueError, match="stop"), RunWriter(tmp_path / "run", overwrite=True):
        raise ValueError("stop")
    assert [item.name for item in tmp_path.iterdir()] == ["run"]
    if point != "before the earlier run is removed":
        np.testing.assert_allclose(open_run(tmp_path / "run").weights(0, 0), earlier.weights[0], atol=1e-6)


def test_two_writers_at_one_path_do_not_meet(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    with RunWriter(tmp_path / "run") as first:
        with pytest.raises(RunError, match="another one at work"), RunWriter(tmp_path / "run"):
            pass
        first.source("text")
        first.tokens(dense.token_columns(12))
        first.layer(layer.entry, layer.measurements)
        first.finish({})
    assert open_run(tmp_path / "run").text == "text"
    with pytest.raises(RunError, match="a path where nothing stands yet"):
        RunWriter(tmp_path / "run")


def test_a_run_that_appears_meanwhile_is_not_replaced(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    other = dense.write_run(tmp_path / "other", dense.make_layer(seed=4))

    def write() -> None:
        with RunWriter(tmp_path / "run") as writer:
            writer.source("text")
            writer.tokens(dense.token_columns(12))
            writer.layer(layer.entry, layer.measurements)
            other.path.rename(tmp_path / "run")
            writer.finish({})

    with pytest.raises(RunError, match="a path where nothing stands yet"):
        write()
    assert open_run(tmp_path / "run").text == dense.TEXT
    assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_overwrite_replaces_a_run_and_keeps_it_until_then(dense: ModuleType, tmp_path: Path) -> None:
    dense.write_run(tmp_path / "run", dense.make_layer(seed=1))
    layer = dense.make_layer(seed=2)
    with RunWriter(tmp_path / "run", overwrite=True) as writer:
        writer.source("new")
        writer.tokens(dense.token_columns(12))
        writer.layer(layer.entry, layer.measurements)
        assert open_run(tmp_path / "run").text == dense.TEXT
        assert writer.finish({}).text == "new"
    assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_a_run_that_was_replaced_does_not_answer_for_another(dense: ModuleType, tmp_path: Path) -> None:
    opened = dense.write_run(tmp_path / "run", dense.make_layer(seed=1))
    expected = opened.weights(0, 1)
    entropy = opened.table("query")
    dense.write_run(tmp_path / "run", dense.make_layer(seed=2), overwrite=True)
    np.testing.assert_array_equal(opened.weights(0, 1), expected)
    assert opened.table("query").equals(entropy)
    for ask in (lambda: opened.tokens, lambda: opened.text, lambda: opened.table("key")):
        with pytest.raises(RunError, match="got another one or none; open it again"):
            ask()


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_empty_folder_may_become_a_run(overwrite: bool, dense: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    dense.write_run(tmp_path / "run", dense.make_layer(), overwrite=overwrite)
    assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_nothing_but_a_run_is_replaced(dense: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    file = tmp_path / "file"
    file.write_text("work")
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "nowhere")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "run.json").write_text('{"format": "other"}')
    for path in (folder, file, foreign):
        with pytest.raises(RunError, match="a heedmap run to replace"):
            RunWriter(path, overwrite=True)
    kept = dense.write_run(tmp_path / "kept", dense.make_layer()).path
    (kept / "notes.md").write_text("work")
    with pytest.raises(RunError, match=r"got notes\.md in it"):
        RunWriter(kept, overwrite=True)
    for name in ("a.partial", "a.replaced"):
        with pytest.raises(RunError, match="a folder name that does not end in"):
            RunWriter(tmp_path / name)
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_a_partial_folder_with_other_things_in_it_stays(dense: ModuleType, tmp_path: Path) -> None:
    partial = tmp_path / "run.partial"
    partial.mkdir()
    (partial / "query.parquet").write_bytes(b"left over")
    (partial / "notes.md").write_text("work")
    with pytest.raises(RunError, match=r"got .*run\.partial, which holds notes\.md"), RunWriter(tmp_path / "run"):
        pass
    assert (partial / "notes.md").exists()
    (partial / "notes.md").unlink()
    dense.write_run(tmp_path / "run", dense.make_layer())
    partial.symlink_to(tmp_path / "run")
    with pytest.raises(RunError, match="which is no folder"), RunWriter(tmp_path / "run", overwrite=True):
        pass


def test_a_link_to_a_folder_is_followed(dense: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "real")
    run = dense.write_run(tmp_path / "runs" / "deep" / "run", dense.make_layer())
    assert run.path == tmp_path / "real" / "deep" / "run"


FULL = """
import importlib.util, resource, sys
from pathlib import Path
from heedmap.errors import StorageError
spec = importlib.util.spec_from_file_location("dense", sys.argv[1])
dense = importlib.util.module_from_spec(spec)
sys.modules["dense"] = dense
spec.loader.exec_module(dense)
layer = dense.make_layer(query_len=300, key_len=300)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    dense.write_run(Path(sys.argv[2]), layer)
except StorageError as error:
    sys.exit(f"StorageError: {error}")
"""


@pytest.mark.parametrize("limit", [1_000, 20_000, 70_000])
def test_a_disk_that_takes_no_more_is_one_error_and_leaves_nothing(limit: int, tmp_path: Path) -> None:
    arguments = [sys.executable, "-W", "error", "-c", FULL, str(HERE / "dense.py"), str(tmp_path / "run"), str(limit)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert done.stderr.startswith("StorageError: [RunWriter] expected to write"), done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [1, 2, 5, 9])
def test_a_disk_that_fails_on_flushing_is_one_error_and_leaves_nothing(
    call: int, dense: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="got No space left on device; free some space") as caught:
        dense.write_run(tmp_path / "run", dense.make_layer())
    assert isinstance(caught.value, OSError)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails_on_renaming_leaves_the_earlier_run(
    dense: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = dense.write_run(tmp_path / "run", dense.make_layer())
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "run.partial":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(StorageError):
        dense.write_run(tmp_path / "run", dense.make_layer(seed=3), overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ["run"]
    assert open_run(tmp_path / "run").meta == earlier.meta


def test_a_folder_that_cannot_be_written_is_one_error(
    dense: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdir(self: Path, *arguments: Any, **keywords: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(StorageError, match="got Permission denied"):
        dense.write_run(tmp_path / "run", dense.make_layer())


def test_a_file_where_a_folder_should_be_is_one_error(dense: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for below in ("run", "deep/run"):
        with pytest.raises(StorageError, match=r"got .*/file, which is a file; choose another folder"):
            dense.write_run(tmp_path / "file" / below, dense.make_layer())


def _changed(layer: Any, **entry: Any) -> Any:
    return type(layer)(**(vars(layer) | {"entry": layer.entry | entry}))


def test_data_that_the_format_cannot_hold_are_refused(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    other = dense.make_layer(query_len=11)
    shapes = {
        "key [key_heads, key_len, head_dim]": {"key": layer.key[:1]},
        "query [heads, query_len, head_dim]": {"query": layer.query[:, :5]},
        "query and key of one dtype": {"key": layer.key.astype(np.float64)},
        "float64, float32, float16 or int32": {"query": layer.query.astype(complex), "key": layer.key.astype(complex)},
        "over 12 query positions": {"measurements": other.measurements},
    }
    cases = {message: type(layer)(**(vars(layer) | change)) for message, change in shapes.items()}
    cases |= {
        "query_heads as a multiple of key_heads": _changed(layer, key_heads=3),
        "ascending heads from 0 to 3": _changed(layer, heads=[3, 1]),
        "a part of letters": _changed(layer, part="../../etc"),
        "scale as a number": _changed(layer, scale=float("nan")),
        "4 sinks": _changed(layer, sinks=[1.0]),
        "a positive softcap": _changed(layer, softcap=0.0),
        "a mask description with its kind": _changed(layer, mask={"causal": True}),
        "size of mask 'chunked' as an integer": _changed(layer, mask={"kind": "chunked", "size": 0}),
        "valid of mask 'padding' as ascending": _changed(layer, mask={"kind": "padding", "valid": [[5, 9], [0, 2]]}),
        "plain data at layers.0.module": _changed(layer, module=object()),
    }
    for message, wrong in cases.items():
        with pytest.raises(InputError) as caught:
            dense.write_run(tmp_path / "run", wrong)
        assert message in str(caught.value)
        assert list(tmp_path.iterdir()) == []


def test_a_writer_is_used_in_order(dense: ModuleType, tmp_path: Path) -> None:
    layer = dense.make_layer()
    with RunWriter(tmp_path / "run") as writer:
        with pytest.raises(InputError, match="a source, tokens and at least one layer"):
            writer.finish({})
        with pytest.raises(InputError, match=r"entries that are not the writer's own, got format, files"):
            writer.finish({"format": "mine", "files": {}})
        with pytest.raises(InputError, match="token columns of one length"):
            writer.tokens(dense.token_columns(3) | {"word": [1]})
        with pytest.raises(InputError, match="none of segment"):
            writer.tokens({name: values for name, values in dense.token_columns(3).items() if name != "segment"})
        with pytest.raises(InputError, match="without lone surrogates"):
            writer.source("\ud800")
        with pytest.raises(InputError, match="query and key together"):
            writer.layer(layer.entry, layer.measurements, layer.query)
        writer.layer(layer.entry, layer.measurements)
        with pytest.raises(InputError, match="each layer of a part once"):
            writer.layer(layer.entry, layer.measurements)
    with pytest.raises(InputError, match="a writer that is open"):
        RunWriter(tmp_path / "run").source("text")


def test_run_json_is_strict_json(dense: ModuleType, tmp_path: Path) -> None:
    run = dense.write_run(tmp_path / "run", dense.make_layer())

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads((run.path / "run.json").read_text(encoding="utf-8"), parse_constant=refuse)
