"""The viewer in a notebook: a widget of anywidget, which JupyterLab, Notebook, VS Code and Colab show alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from heedmap.errors import InputError, RunError, UnsupportedError
from heedmap.runs.reader import Run
from heedmap.view.files import RunFiles, run_names
from heedmap.view.page import script

if TYPE_CHECKING:
    import anywidget

HEIGHT = 760


def show(*runs: Run, height: int = HEIGHT) -> anywidget.AnyWidget:
    """A widget that shows runs; return it from a cell, or hand it to `IPython.display.display`.

    The notebook gets no data beforehand: the widget asks this process for the bytes it needs. Its attribute `state`
    holds what it shows, as text, and may be set.

    Args:
        runs: what to show, the first one first; further runs of the same text can be compared with it.
        height: of the widget, in CSS pixels.

    Raises:
        InputError: no run.
        UnsupportedError: anywidget is not installed.
    """
    if not runs:
        raise InputError("show", expected="at least one run", got="none")
    return _widget_class()(runs, height)


@cache
def _widget_class() -> Any:
    """The widget's class, made when it is first needed: anywidget is an optional library."""
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise UnsupportedError(
            "show", expected="anywidget", got="an environment without it", do="pip install 'heedmap[notebook]'"
        ) from error

    class RunWidget(anywidget.AnyWidget):
        """One or several runs in a notebook."""

        _esm = script()
        runs = traitlets.List(traitlets.Unicode()).tag(sync=True)
        state = traitlets.Unicode("").tag(sync=True)
        height = traitlets.Int(HEIGHT).tag(sync=True)

        def __init__(self, runs: Sequence[Run], height: int) -> None:
            super().__init__(runs=run_names(runs), height=height)
            self._files = [RunFiles(run) for run in runs]
            for files in self._files:
                files.prepare()
            self.on_msg(self._answer)

        def _answer(self, _widget: object, content: object, _buffers: object) -> None:
            identifier = content.get("id") if isinstance(content, dict) else None
            if not isinstance(identifier, str):
                return
            try:
                data = _read(self._files, content)
            except RunError as error:
                self.send({"id": identifier, "error": str(error)})
            else:
                self.send({"id": identifier}, buffers=[data])

    return RunWidget


def _read(files: Sequence[RunFiles], asked: Any) -> bytes:
    """The bytes that a message asks for. Raises RunError."""
    run, path, start, end = (asked.get(name) for name in ("run", "path", "start", "end"))
    numbers = type(run) is int and 0 <= run < len(files) and type(start) is int and start >= 0
    if not numbers or not isinstance(path, str) or not (end is None or type(end) is int):
        raise RunError("show", expected="run, path, start and end", got=repr(asked)[:80])
    if path not in files[run]:
        raise RunError("show", expected="a file of the run", got=repr(path)[:80])
    return files[run].read(path, start, end)
