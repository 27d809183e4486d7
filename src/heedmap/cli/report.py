"""What commands about one run have in common: warnings as lines on standard error, then the summary."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from heedmap.cli.picture import draw
from heedmap.cli.summary import Summary
from heedmap.errors import HeedmapWarning

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect heedmap's own warnings; those of others go their way."""
    told: list[str] = []
    with warnings.catch_warnings():
        pass_on = warnings.showwarning

        def listen(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HeedmapWarning):
                told.append(str(message))
            else:
                pass_on(message, category, filename, lineno, file, line)

        warnings.showwarning = listen
        warnings.simplefilter("always", HeedmapWarning)
        yield told


def summarise(
    run: Run,
    picture: Path | None = None,
    *,
    statistic: str | None = None,
    head: str | None = None,
    dark: bool = False,
) -> Summary:
    """Gather a summary, and draw its picture where one is wanted: of ``head``, else of the most telling one."""
    summary = Summary(run, picture)
    if picture is not None:
        draw(run, picture, head or summary.head, statistic=statistic, dark=dark)
    return summary


def report(summary: Summary, told: list[str], *, as_json: bool) -> None:
    """Say the warnings on standard error, and print the summary, or one JSON document, on standard output."""
    for warning in dict.fromkeys([*told, *(summary.warnings if as_json else [])]):
        click.secho(f"warning: {warning}", err=True, fg="yellow")
    if as_json:
        summary.write_json(sys.stdout, told)
    else:
        summary.print(sys.stdout)
