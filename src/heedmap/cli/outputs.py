"""Where the measured lessons put what they found: a picture, a table, one JSON document, or a page of the terminal."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedmap.cli import lesson
from heedmap.cli.picture import DARK, picture_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

Draw = Callable[..., "Figure"]


@dataclass(frozen=True)
class Outputs:
    """What was asked for on the command line, checked before any work is done."""

    picture: Path | None
    dark: bool
    table: Path | None
    as_json: bool

    def deliver(
        self,
        document: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        page: Callable[[], RenderableType],
        draw: Callable[[], Draw] | None = None,
    ) -> None:
        """Write the picture and the table, and print the document or the page, which a full disk does not prevent.

        Args:
            document: plain data; NaN and infinity become null.
            rows: the table's.
            page: makes what the terminal shows.
            draw: imports the function that draws the document (drawing needs matplotlib, which takes a while).
        """
        document = lesson.finite(document)
        try:
            if self.picture is not None and draw is not None:
                from heedmap.figures.save import save

                save(draw()(document, facecolor=DARK if self.dark else "white"), self.picture)
            if self.table is not None:
                lesson.write_parquet(rows, self.table)
        finally:  # what took minutes to measure is told whatever becomes of the files
            if self.as_json:
                lesson.write_json(document)
            else:
                lesson.console().print(page())


def outputs(*, picture: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options `--png`, `--dark` (with a `picture`), `--parquet` and `--json`; the command gets them as `outputs`."""
    options = [
        click.option("--png", metavar="F", help="Draw the result as F.png or F.svg."),
        click.option("--dark", is_flag=True, help="Draw for a dark page."),
    ] if picture else []  # fmt: skip
    options += [
        click.option("--parquet", metavar="F", help="Write the numbers as a table."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(
            *, png: str | None = None, dark: bool = False, parquet: str | None, as_json: bool, **others: Any
        ) -> None:
            if dark and png is None:
                raise click.UsageError("--dark is about the picture: say where it goes with --png F")
            command(outputs=Outputs(picture_path(png), dark, lesson.parquet_path(parquet), as_json), **others)

        for option in reversed(options):
            run = option(run)
        return run

    return decorate
