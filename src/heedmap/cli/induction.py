"""``heedmap induction``: the heads that copy, on repeated random tokens, and what a model loses without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.main import EXIT_INTERRUPTED
from heedmap.cli.picture import DARK, picture_path
from heedmap.cli.progress import LayerProgress
from heedmap.cli.selection import parse_heads, parse_layers
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.copying import Copying, Study

_LISTED = 10


@click.command(short_help="Find the heads that copy, and what a model loses without them.")
@click.option("--model", required=True, metavar="M", help="Packaged (minilm, smollm2, gemma3-270m), a folder, a GGUF "
              "file, or a hub id.")  # fmt: skip
@click.option("--lengths", default="32,64,128", show_default=True, metavar="N,…", help="Random tokens of one half.")
@click.option("--draws", type=click.IntRange(1, 1000), default=5, show_default=True, metavar="N",
              help="Sequences of each length, over which the intervals are.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Of the random tokens.")  # fmt: skip
@click.option("--ablate", metavar="L.H,…", help="Zero these heads, each alone and all together, and measure again.")
@click.option("--ablate-top", "strongest", type=click.IntRange(1, 100), metavar="K",
              help="Zero the K heads with the highest induction score.")  # fmt: skip
@click.option("--png", metavar="F", help="Draw it as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--out", metavar="D", help="Write the tables to this folder: Parquet, CSV, LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head.")
def command(
    model: str,
    lengths: str,
    draws: int,
    seed: int,
    ablate: str | None,
    strongest: int | None,
    png: str | None,
    dark: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Run random tokens twice over through a model: only a head that finds the earlier copy can know what comes next.

    Induction is the mean weight, in the second copy, on the token after the earlier one (Olsson et al. 2022). Where a
    model predicts the next token, its loss falls from the first copy to the second; --ablate shows what that drop owes
    to which heads. Ctrl-C keeps what was measured.

    \b
    heedmap induction --model smollm2 --ablate-top 3 --png induction.png
    heedmap induction --model minilm --lengths 64
    """
    picture, folder = picture_path(png), out_folder(out)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")
    if ablate is not None and strongest is not None:
        raise InputError("induction", expected="--ablate or --ablate-top", got="both")
    sizes, silence = parse_layers(lengths, "--lengths"), _heads(ablate)

    study, interrupted = _measure(model, sizes, draws, seed, silence, strongest or 0, quiet=as_json)
    intact = study.intact
    assert intact is not None

    from heedmap.experiments.copying_findings import about_copying, loss_findings, score_findings, silenced_findings

    about = about_copying(study, intact, command_line())
    tables = [score_findings(intact, about, study.why_no_loss)]
    if not study.why_no_loss:
        tables.append(loss_findings(intact, about))
    if study.silenced:
        tables.append(silenced_findings(study, intact, about, interrupted=interrupted))
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        for table in tables:
            write_findings(table, folder)
    if picture is not None:
        from heedmap.figures.save import save

        save(_figure(study, intact, DARK if dark else "white"), picture)
    if as_json:
        first, *others = (table.document() for table in tables)
        lesson.write_json(
            first
            | {table["table"]: {"rows": table["rows"], "notes": table["notes"]} for table in others}
            | {"interrupted": interrupted, "picture": None if picture is None else str(picture)}
        )
    else:
        more = (f"{len(tables[0]) - _LISTED:,} heads more: --out and --json have them all",)
        short = replace(tables[0], rows=list(tables[0].rows)[:_LISTED], notes=(*more, *tables[0].notes))
        shown = [short if len(tables[0]) > _LISTED else tables[0], *tables[1:]]
        for table in shown:
            lesson.console().print(page(table, facts=table is shown[-1]))
    if interrupted:
        click.echo(
            f"[heedmap] interrupted; kept {len(study.silenced)} of {study.planned} sets of silent heads", err=True
        )
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def _heads(text: str | None) -> list[tuple[int, int]]:
    found = []
    for item in [] if text is None else parse_heads(text, "--ablate"):
        if isinstance(item, int):
            raise InputError("--ablate", expected="heads as layer.head, such as 18.6", got=str(item))
        layer, head = item.split(".")
        found.append((int(layer), int(head)))
    return found


def _measure(
    model: str,
    lengths: Sequence[int],
    draws: int,
    seed: int,
    silence: list[tuple[int, int]],
    strongest: int,
    *,
    quiet: bool,
) -> tuple[Study, bool]:
    """The study, and whether Ctrl-C ended it before its end; without anything to keep the interruption goes on."""
    with LayerProgress(model, quiet=quiet) as tell:
        from heedmap.capture.models import resolve
        from heedmap.experiments.copying import Study, study_copying

        loaded = resolve(model)
        study = Study(loaded.name, loaded.revision)
        try:
            study_copying(loaded, lengths=lengths, draws=draws, seed=seed, silence=silence, strongest=strongest,
                          tell=tell, into=study)  # fmt: skip
        except KeyboardInterrupt:
            if study.intact is None:
                raise
            return study, True
    return study, False


def _figure(study: Study, intact: Copying, facecolor: str) -> Any:
    from heedmap.experiments.intervals import student
    from heedmap.figures.induction import induction_figure

    curves, drops = None, None
    all_silent = [one for one in study.silenced if not one.control]
    if intact.losses is not None:
        longest = int(np.argmax(intact.lengths))
        curves = {"the model as it is": intact.losses[longest].mean(0)}
        if all_silent:
            last = all_silent[-1]
            assert last.found.losses is not None
            curves[f"without {last.name if len(last.heads) == 1 else f'{len(last.heads)} heads'}"] = (
                last.found.losses[longest].mean(0)
            )  # fmt: skip
            drops = []
            models = [(f"without {one.name}", one.found, one.control) for one in study.silenced]
            for name, found, control in [("as it is", intact, False), *models]:
                halves = found.halves()
                assert halves is not None
                drop = student((halves[..., 0] - halves[..., 1]).mean(0))
                drops.append((name, drop.mean, drop.half, control))
    sizes = ", ".join(str(length) for length in intact.lengths)
    return induction_figure(
        intact.heads, intact.means("induction"), f"Heads of {study.model} that copy",
        f"random tokens twice over, {sizes} of a half   ·   {intact.draws} draws   ·   seed {intact.seed}",
        losses=curves, drops=drops, facecolor=facecolor,
        marked=sorted({head for one in all_silent for head in one.heads}),
    )  # fmt: skip
