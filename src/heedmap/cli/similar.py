"""``heedmap similar``: the heads of a run by how alike they attend, as a map and in groups."""

from __future__ import annotations

from pathlib import Path

import click

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.picture import DARK, picture_path


@click.command(short_help="Map the heads of a run by how alike they attend, and group them.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--groups", "count", type=click.IntRange(1), metavar="N", help="How many groups; without it as many, up "
              "to 12, as are told apart best.")  # fmt: skip
@click.option("--rows", type=click.IntRange(1), metavar="N", help="Compare N rows, evenly spaced over the text, in "
              "place of all: for long texts.")  # fmt: skip
@click.option("--part", metavar="P", help="Which stack of layers, where the model has several: encoder, decoder …")
@click.option("--png", metavar="F", help="Draw the map as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--out", metavar="D", help="Write the tables to this folder: Parquet, CSV, LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head and distance.")
def command(
    run: Path,
    count: int | None,
    rows: int | None,
    part: str | None,
    png: str | None,
    dark: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Say which heads of RUN attend alike: the Jensen–Shannon distance between every two (Clark et al. 2019), a map of
    them in the plane, and groups.

    \b
    heedmap similar runs/cat --png similar.png
    heedmap similar runs/book --rows 256 --groups 8 --out tables
    """
    picture, folder = picture_path(png), out_folder(out)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")

    from heedmap.heads.similar import distances, embed, group, scipy_tools
    from heedmap.heads.similar_findings import similar_findings
    from heedmap.runs.reader import open_run

    scipy_tools()  # refuses before any work is done
    opened = open_run(run)
    with lesson.working("comparing heads", quiet=as_json) as say:
        found = distances(opened, part=part, rows=rows,
                          progress=lambda done, total: say(f"comparing heads: {done:,} of {total:,} rows"))  # fmt: skip
    places, share = embed(found.matrix)
    of, silhouette = group(found.matrix, count)
    groups, heads, pairs = similar_findings(opened, found, places, share, of, silhouette, command_line())
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        for table in (groups, heads, pairs):
            write_findings(table, folder)
    if picture is not None:
        from heedmap.cli.summary import printable
        from heedmap.figures.save import save
        from heedmap.figures.similar import similar_figure

        subtitle = (
            f"{opened.meta['model'].get('name')}   ·   {len(found.heads)} heads   ·   {found.rows:,} of "
            f"{found.of_rows:,} rows   ·   the plane holds {share:.0%} of the spread"
        )
        legend = [
            f"group {row['group']}: {row['heads']} heads" + (f", {row['type']}" if row["type"] else "")
            for row in groups
        ]
        figure = similar_figure(
            [f"{layer}.{head}" for _, layer, head in found.heads], places, of, legend,
            f"Heads that attend alike in “{printable(opened.text[:100])}”", subtitle,
            facecolor=DARK if dark else "white",
        )  # fmt: skip
        save(figure, picture)
    if as_json:
        lesson.write_json(
            heads.document()
            | {"groups": groups.document()["rows"], "distances": found.matrix.tolist(), "plane_share": share,
               "silhouette": silhouette, "picture": None if picture is None else str(picture)}
        )  # fmt: skip
    else:
        lesson.console().print(page(groups))
