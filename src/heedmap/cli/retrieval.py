"""``heedmap retrieval``: the heads that fetch a needle from a haystack while a model answers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.gold import data_name
from heedmap.cli.main import EXIT_INTERRUPTED
from heedmap.cli.picture import DARK, picture_path
from heedmap.cli.progress import LayerProgress
from heedmap.cli.selection import parse_layers
from heedmap.errors import InputError
from heedmap.heads.retrieval import BAR

if TYPE_CHECKING:
    from heedmap.experiments.retrieval import Retrieval
    from heedmap.heads.findings import About

_LISTED = 12


@click.command(short_help="Find the heads that fetch a needle from a haystack while a model answers.")
@click.option("--model", required=True, metavar="M", help="Packaged (smollm2, gemma3-270m), a folder, a GGUF file, or "
              "a hub id.")  # fmt: skip
@click.option("--file", required=True, metavar="F", help="The haystack, a long text; - for standard input.")
@click.option("--needles", metavar="F", help="JSON: a list of {\"needle\": …, \"question\": …, \"answer\": …}. Without "
              "it three invented facts.")  # fmt: skip
@click.option("--lengths", default="512,1024", show_default=True, metavar="N,…", help="Tokens of prompt and answer.")
@click.option("--depths", default="0,25,50,75,100", show_default=True, metavar="P,…",
              help="Where the needle stands, in percent of the haystack.")  # fmt: skip
@click.option("--png", metavar="F", help="Draw it as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--out", metavar="D", help="Write the tables to this folder: Parquet, CSV, LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head and answer.")
def command(
    model: str,
    file: str,
    needles: str | None,
    lengths: str,
    depths: str,
    png: str | None,
    dark: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Hide sentences in a long text, ask a model for them, and see which heads look at each word while it is copied.

    A head's score is the share of the needle's tokens that the model produced while the head's largest weight lay on
    that very token (Wu et al. 2024). Ctrl-C keeps what was measured.

    \b
    heedmap retrieval --model smollm2 --file book.txt --png retrieval.png
    heedmap retrieval --model smollm2 --file book.txt --lengths 2048,8192 --depths 0,50,100
    """
    picture, folder = picture_path(png), out_folder(out)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")
    sizes, shares = parse_layers(lengths, "--lengths"), _depths(depths)

    from heedmap.cli.source import read_source

    text = read_source(None, file).text
    found, interrupted = _measure(model, text, needles, sizes, shares, quiet=as_json)

    from heedmap.experiments.retrieval_findings import answer_findings, cell_findings, head_findings

    about = _about(found, file, needles, command_line())
    heads = head_findings(found, about, interrupted=interrupted)
    cells, trials = cell_findings(found, about), answer_findings(found, about)
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        for table in (heads, cells, trials):
            write_findings(table, folder)
    if picture is not None:
        from heedmap.figures.save import save

        save(_figure(found, sizes, shares, DARK if dark else "white"), picture)
    if as_json:
        lesson.write_json(
            heads.document()
            | {"cells": cells.document()["rows"], "trials": trials.document()["rows"], "interrupted": interrupted,
               "picture": None if picture is None else str(picture)}
        )  # fmt: skip
    else:
        lesson.console().print(page(cells, facts=False))
        left = len(heads) - _LISTED
        notes = (*((f"{left:,} heads more: --out and --json have them all",) if left > 0 else ()), *heads.notes)
        lesson.console().print(page(replace(heads, rows=list(heads.rows)[:_LISTED], notes=notes)))
    if interrupted:
        click.echo(f"[heedmap] interrupted; kept {len(found.trials)} of {found.planned} questions", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def _depths(text: str) -> list[float]:
    """`0,25,100` → shares, ascending."""
    pieces = [piece.strip().removesuffix("%") for piece in text.split(",")]
    if not all(re.fullmatch(r"\d{1,3}(?:\.\d{1,6})?", piece) and float(piece) <= 100 for piece in pieces):
        raise InputError("--depths", expected="percentages such as 0,25,50,75,100", got=repr(text))
    return sorted({float(piece) / 100 for piece in pieces})


def _measure(
    model: str, text: str, needles: str | None, lengths: list[int], depths: list[float], *, quiet: bool
) -> tuple[Retrieval, bool]:
    """The trials, and whether Ctrl-C ended them before their end; without any the interruption goes on."""
    with LayerProgress(model, quiet=quiet) as tell:
        from heedmap.experiments.haystack import NEEDLES, read_needles

        hidden = NEEDLES if needles is None else read_needles(Path(needles))

        from heedmap.capture.models import resolve
        from heedmap.experiments.retrieval import Retrieval, find_retrieval

        loaded = resolve(model)
        found = Retrieval(loaded.name, loaded.revision)
        try:
            find_retrieval(loaded, text, lengths=lengths, depths=depths, needles=hidden, tell=tell, into=found)
        except KeyboardInterrupt:
            if not found.trials:
                raise
            return found, True
    return found, False


def _figure(found: Retrieval, lengths: list[int], depths: list[float], facecolor: str) -> Any:
    from heedmap.figures.retrieval import retrieval_figure

    recall = np.full((len(depths), len(lengths)), np.nan)
    for row, depth in enumerate(depths):
        for column, length in enumerate(lengths):
            own = [trial.recall for trial in found.trials if (trial.length, trial.asked) == (length, depth)]
            recall[row, column] = np.mean(own) if own else np.nan
    answered = sum(trial.answered for trial in found.trials)
    scores = np.mean([trial.scores for trial in found.trials], axis=0)
    return retrieval_figure(
        lengths, depths, recall, found.heads, scores, f"Heads of {found.model} that fetch a needle from a haystack",
        f"{answered} of {len(found.trials)} questions answered   ·   {int((scores > BAR).sum())} of "
        f"{len(found.heads)} heads score above {BAR}",
        facecolor=facecolor,
    )  # fmt: skip


def _about(found: Retrieval, file: str, needles: str | None, line: str) -> About:
    from heedmap.heads.findings import About

    hay = "standard input" if file == "-" else data_name(Path(file))
    hidden = "three invented needles" if needles is None else f"needles of {data_name(Path(needles))}"
    return About(
        model=found.model, revision=found.revision, data=f"{hay}, {hidden}", items=len(found.trials),
        item="questions", seed=None, command=line,
        more={"answered": sum(trial.answered for trial in found.trials),
              "prompts": "chat template" if found.chat else "plain text"},
    )  # fmt: skip
