"""``heedmap sinks``: the weight and the score that the first tokens of a text get from every head."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.picture import DARK, picture_path
from heedmap.errors import InputError
from heedmap.heads.sinks import FIRST, THRESHOLD

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


@click.command(short_help="Measure what the first tokens of a text get from every head.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--model", metavar="M", help="Look at --file with this model first: packaged, folder, GGUF or hub id.")
@click.option("--file", metavar="F", help="The text for --model; - for standard input.")
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Cut the text to N tokens.")
@click.option("--first", type=click.IntRange(1), default=FIRST, show_default=True, metavar="K",
              help="How many first tokens.")  # fmt: skip
@click.option("--threshold", type=float, default=THRESHOLD, show_default=True, metavar="A",
              help="Mean weight above which a head sinks on a token.")  # fmt: skip
@click.option("--part", metavar="P", help="Which stack of layers, where the model has several: encoder, decoder …")
@click.option("--png", metavar="F", help="Draw it as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--out", metavar="D", help="Write the tables to this folder: Parquet, CSV, LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head.")
def command(
    run: Path | None,
    model: str | None,
    file: str | None,
    tokens: int | None,
    first: int,
    threshold: float,
    part: str | None,
    png: str | None,
    dark: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Measure the mean weight, and the mean score before the softmax, of every head on the first tokens of a text.

    A head sinks on a token where its mean weight over the rows that may see the token is above the threshold.

    \b
    heedmap sinks runs/book --png sinks.png
    heedmap sinks --model smollm2 --file book.txt --tokens 2048
    """
    picture, folder = picture_path(png), out_folder(out)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")
    if not (math.isfinite(threshold) and 0 <= threshold < 1):
        raise InputError("sinks", expected="a --threshold from 0 to below 1", got=f"{threshold:g}")
    opened = _run(run, model, file, tokens, quiet=as_json)

    from heedmap.heads.sinks import find_sinks
    from heedmap.heads.sinks_findings import sinks_findings

    found = find_sinks(opened, first=first, part=part)
    layers, heads = sinks_findings(opened, found, threshold, command_line(), file)
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        write_findings(layers, folder)
        write_findings(heads, folder)
    if picture is not None:
        from heedmap.cli.summary import printable
        from heedmap.figures.save import save
        from heedmap.figures.sinks import sinks_figure

        subtitle = (
            f"{opened.meta['model'].get('name')}   ·   {opened.tokens_of().num_rows:,} tokens   ·   sink rate "
            f"{found.rate_of_any(threshold):.0%} of {len(found.heads)} heads (dots: above {threshold:g})"
        )
        title = f"The first {first} tokens of “{printable(opened.text[:120])}”"
        save(sinks_figure(found, title, subtitle, threshold=threshold, facecolor=DARK if dark else "white"), picture)
    if as_json:
        rates = zip(found.positions, found.labels, found.rate(threshold).tolist(), strict=True)
        lesson.write_json(
            heads.document()
            | {
                "threshold": threshold,
                "tokens": [{"position": at, "text": text, "rate": rate} for at, text, rate in rates],
                "rate_of_any": found.rate_of_any(threshold),
                "picture": None if picture is None else str(picture),
            }
        )
    else:
        lesson.console().print(page(layers))


def _run(run: Path | None, model: str | None, file: str | None, tokens: int | None, *, quiet: bool) -> Run:
    """The run that is named, or a look at the file that lasts as long as it is in use."""
    from heedmap.runs.reader import open_run

    if run is not None and model is None and file is None and tokens is None:
        return open_run(run)
    if run is not None or file is None:
        raise InputError(
            "sinks",
            expected="a run, or --model M with --file F",
            got="both" if run is not None else "neither" if model is None else "--model alone",
            do="heedmap sinks runs/book, or heedmap sinks --model smollm2 --file book.txt --tokens 2048",
        )
    from heedmap.cli.progress import LayerProgress
    from heedmap.cli.source import read_source

    text = read_source(None, file).text
    with LayerProgress(model or "minilm", quiet=quiet) as progress:
        from heedmap.capture.look import look

        return look(text, model, max_tokens=tokens, statistics="received", progress=progress)
