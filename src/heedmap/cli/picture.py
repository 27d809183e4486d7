"""The ``--png`` of commands: one file name in, one picture out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heedmap.runs.reader import Run

DARK = "#14161c"


def picture_path(png: str | None) -> Path | None:
    """The file to draw to, checked before any work is done; ``InputError`` for another suffix than .png or .svg."""
    if png is None:
        return None
    from heedmap.figures.save import check_picture_path

    return check_picture_path(png)


def draw(
    run: Run,
    path: Path,
    head: tuple[str, int, int] | str | None,
    *,
    statistic: str | None = None,
    dark: bool = False,
) -> Path:
    """Draw the overview of a run; without a statistic, by entropy or else the first that was measured."""
    from heedmap.figures.grid import statistics_of
    from heedmap.figures.overview import overview
    from heedmap.figures.save import save

    names = statistics_of(run)
    chosen = statistic or ("entropy" if "entropy" in names or not names else names[0])
    return save(overview(run, chosen, head, facecolor=DARK if dark else "white"), path)
