"""What a long command is at, on standard error: a spinner while it loads, a bar over layers while it looks."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

STEPS = {"forward": "layers", "generate": "tokens", "read": "texts"}
"""Stages whose steps are counted, and what they are."""


class LayerProgress:
    """A line that is drawn over and then wiped; nothing at all where standard error is no terminal, or when quiet.

    Called as ``look`` calls its ``progress``: with a stage, and how many of its steps are done.
    """

    def __init__(self, model: str, *, quiet: bool = False) -> None:
        console = Console(file=sys.stderr)  # this very stream: libraries are silenced by exchanging sys.stderr
        self._words = {
            "load": f"loading {model}",
            "tokenise": "reading the text",
            "generate": "generating",
            "forward": "looking",
            "check": "checking against the model's own attention",
            "write": "writing the run",
            "summarise": "putting it together",
            "align": "finding words in tokens",
            "read": "reading",
        }
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            _Steps(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.add_task(self._words["load"], total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        (task,) = self._progress.tasks
        task.total = total if stage in STEPS and total > 0 else None  # no number of steps: a bar in motion
        self._progress.update(
            task.id,
            description=self._words.get(stage, stage),
            completed=done,
            unit=STEPS.get(stage),
            refresh=stage in STEPS and done == total,  # the end is seen, however soon the next stage begins
        )


class _Steps(TextColumn):
    """Layers or tokens done, where they are counted."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit")
        return Text("" if task.total is None else f"{task.completed:.0f}/{task.total:.0f} {unit}")
