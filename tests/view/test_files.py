from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heedmap.runs.reader import Run
from heedmap.view import files
from heedmap.view.files import RunFiles, run_names


def test_a_derived_file_that_stands_waits_for_no_other(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one derived file is being computed, another that is known is read at once."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(_run: Run) -> bytes:
        begun.set()
        assert go_on.wait(10)
        return b"slow"

    monkeypatch.setitem(files.DERIVED, "derived/types.json", slow)
    of_run = RunFiles(run)
    whole = of_run.read("derived/heads.json", 0)
    other = threading.Thread(target=of_run.read, args=("derived/types.json", 0), daemon=True)
    other.start()
    assert begun.wait(10)
    again: list[bytes] = []
    reader = threading.Thread(target=lambda: again.append(of_run.read("derived/heads.json", 0)), daemon=True)
    reader.start()
    reader.join(5)
    try:
        assert again == [whole]
    finally:
        go_on.set()
        other.join(10)
        reader.join(10)


def test_runs_are_called_by_what_tells_them_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(*paths: str | Path) -> list[str]:
        return run_names(cast("list[Any]", [SimpleNamespace(path=Path(path)) for path in paths]))

    assert names("/a/cat") == ["cat"]
    assert names("/a/cat", "/b/dog") == ["cat", "dog"]
    assert names("/a/cat", "/b/cat", "/b/dog") == ["a/cat", "b/cat", "dog"]
    assert names("/x/1/cat", "/y/1/cat") == ["x/1/cat", "y/1/cat"]
    assert names("/a/cat", "/a/cat") == ["cat", "cat (2)"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert names(".") == ["here"]
