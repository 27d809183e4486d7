"""``heedmap show``: the summary of a run again, without a model."""

from __future__ import annotations

from pathlib import Path

import click

from heedmap.cli.picture import picture_path


@click.command(short_help="Print the summary of a run again.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--png", metavar="F", help="Draw all heads and one of them, as F.png or F.svg.")
@click.option("--head", metavar="H", help="The head to draw beside the grid: 5.11. Without it, the most telling one.")
@click.option("--statistic", metavar="S", help="What colours the grid, without it entropy: a mean over rows.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the summary.")
def command(run: Path, png: str | None, head: str | None, statistic: str | None, dark: bool, as_json: bool) -> None:
    """Print the summary of RUN, a folder that heedmap look wrote, and draw it if asked. Needs no model.

    \b
    heedmap show runs/cat
    heedmap show runs/cat --png cat.svg --head 5.11 --statistic mean_distance
    """
    picture = picture_path(png)
    if picture is None and (head or statistic or dark):
        raise click.UsageError("--head, --statistic and --dark are about the picture: say where it goes with --png F")

    from heedmap.cli.report import heard, report, summarise
    from heedmap.runs.reader import open_run

    opened = open_run(run)
    with heard() as told:
        summary = summarise(opened, picture, statistic=statistic, head=head, dark=dark)
    report(summary, told, as_json=as_json)
