from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from heedmap.errors import InputError, RunError, UnsupportedError
from heedmap.runs.reader import Run
from heedmap.view import widget
from heedmap.view.files import RunFiles


@pytest.fixture
def shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("anywidget")
    made = run.show(height=500)
    made.sent = []
    monkeypatch.setattr(made, "send", lambda content, buffers=None: made.sent.append((content, buffers)))
    return made


def test_the_widget_answers_with_the_bytes_asked_for(shown: Any, run: Run) -> None:
    shown._answer(shown, {"id": "a 0", "run": 0, "path": "text.txt", "start": 2, "end": 7}, [])
    assert shown.sent == [({"id": "a 0"}, [(run.path / "text.txt").read_bytes()[2:7]])]


def test_the_notebook_gets_no_data_beforehand(shown: Any) -> None:
    assert shown.runs == ["small"]
    assert shown.height == 500
    assert shown.state == ""


@pytest.mark.parametrize(
    "asked",
    [
        {"run": 0, "path": "../run.json", "start": 0, "end": None},
        {"run": 1, "path": "run.json", "start": 0, "end": None},
        {"run": True, "path": "run.json", "start": 0, "end": None},
        {"run": 0, "path": "run.json", "start": -5, "end": None},
        {"run": 0, "path": None, "start": 0, "end": 1},
        {"run": 0, "path": "run.json", "start": 0, "end": "9"},
        {},
    ],
)
def test_a_strange_question_is_answered_with_an_error(shown: Any, asked: dict[str, Any]) -> None:
    shown._answer(shown, {"id": "a", **asked}, [])
    [(content, buffers)] = shown.sent
    assert content["error"].startswith("[show]")
    assert buffers is None


@pytest.mark.parametrize("message", [None, {}, {"id": 3}, "text"])
def test_a_message_without_a_name_is_left_alone(shown: Any, message: object) -> None:
    shown._answer(shown, message, [])
    assert shown.sent == []


def test_a_file_that_vanished_is_an_error(run: Run, tmp_path: Path) -> None:
    files = RunFiles(run)
    files._paths["text.txt"] = tmp_path / "gone"
    with pytest.raises(RunError, match="no such file any more"):
        widget._read([files], {"run": 0, "path": "text.txt", "start": 0, "end": 1})


def test_without_anywidget_the_way_out_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._widget_class.cache_clear()
    with pytest.raises(UnsupportedError, match=r"pip install 'heedmap\[notebook\]'"):
        run.show()
    widget._widget_class.cache_clear()


def test_no_run_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one run"):
        widget.show()
