from __future__ import annotations

import threading

import pytest

from heedmap.runs.reader import Run
from heedmap.view import files
from heedmap.view.files import RunFiles


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
