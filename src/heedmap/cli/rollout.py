"""``heedmap rollout``: how much of each token of a run reaches one token through all layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.picture import DARK, picture_path
from heedmap.heads.rollout import RESIDUAL


@click.command(short_help="Follow what reaches one token of a run through all layers (attention rollout).")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--token", type=int, required=True, metavar="N", help="Position of the token; negative ones count from "
              "the end.")  # fmt: skip
@click.option("--words", is_flag=True, help="Contributions of words, those of their tokens summed.")
@click.option("--residual", type=float, default=RESIDUAL, show_default=True, metavar="R",
              help="Share that each layer passes on unchanged, from 0 to below 1.")  # fmt: skip
@click.option("--part", metavar="P", help="Which stack of layers, where the model has several: encoder, decoder …")
@click.option("--top", type=click.IntRange(1), default=12, show_default=True, metavar="N", help="How many to list.")
@click.option("--png", metavar="F", help="Draw the text, tinted by contribution, as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--out", metavar="D", help="Write the tables to this folder: Parquet, CSV, LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every token and depth.")
def command(
    run: Path,
    token: int,
    words: bool,
    residual: float,
    part: str | None,
    top: int,
    png: str | None,
    dark: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Follow what reaches one token of RUN through all layers, if attention and the residual stream were all there is.

    Each layer passes on half of a token as it was and half of what its heads read, on average (Abnar & Zuidema 2020).

    \b
    heedmap rollout runs/cat --token 8 --png it.png
    heedmap rollout runs/book --token -1 --words
    """
    picture, folder = picture_path(png), out_folder(out)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")

    from heedmap.heads.rollout import rollout
    from heedmap.heads.rollout_findings import rollout_findings
    from heedmap.runs.reader import open_run

    opened = open_run(run)
    with lesson.working("following attention down", quiet=as_json) as say:

        def tell(done: int, total: int) -> None:
            say(f"following attention down: {done} of {total} layers")

        found = rollout(opened, token, part=part, residual=residual, progress=tell)
    if words:
        sequence = opened.layer(found.layers[0], found.part).query_sequence
        every = opened.words_of(sequence)
        found = found.by_word(every.of_token, every.table.column("text").to_pylist())
    unit = "word" if words else "token"
    ranked, depths = rollout_findings(opened, found, unit, command_line())
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        write_findings(ranked, folder)
        write_findings(depths, folder)
    if picture is not None:
        from heedmap.cli.summary import printable
        from heedmap.figures.rollout import rollout_figure
        from heedmap.figures.save import save

        title = f"What reaches “{printable(found.labels[found.token])}” ({unit} {found.token})"
        count = f"{len(found.contributions):,} {unit}s   ·   {len(found.layers)} layers"
        subtitle = f"{opened.meta['model'].get('name')}   ·   {count}   ·   attention rollout, residual {residual:g}"
        save(rollout_figure(found, title, subtitle, facecolor=DARK if dark else "white"), picture)
    if as_json:
        lesson.write_json(
            ranked.document()
            | {"token": found.token, "residual": residual, "part": found.part, "layers": found.layers,
               "by_depth": found.by_depth.tolist(), "picture": None if picture is None else str(picture)}
        )  # fmt: skip
    else:
        left = len(ranked) - top
        notes = (*((f"{left:,} more: --out and --json have them all",) if left > 0 else ()), *ranked.notes)
        lesson.console().print(page(replace(ranked, rows=list(ranked.rows)[:top], notes=notes)))
