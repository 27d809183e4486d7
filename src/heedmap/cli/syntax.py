"""``heedmap syntax``: which head follows which relation of grammar, on a gold treebank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.gold import GoldProgress, data_name, random_weights
from heedmap.cli.picture import DARK
from heedmap.cli.selection import parse_names

if TYPE_CHECKING:
    from heedmap.capture.models import LoadedModel
    from heedmap.experiments.syntax import SyntaxFound
    from heedmap.heads.findings import Findings
    from heedmap.heads.syntax import Relation


@click.command(short_help="Find the heads that follow relations of grammar, on a gold treebank.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--model", metavar="M", help="A packaged model (minilm is the default, smollm2, gemma3-270m), a folder, "
              "a GGUF file, or a name on a model hub.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=2), metavar="N", help="The first N sentences of the file only.")
@click.option("--relations", metavar="R", help="These relations, parted by commas: det,obj,nmod:poss. Without it those "
              "with at least 20 arcs in each half.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap.")
@click.option("--out", metavar="DIR", help="Write the tables (Parquet, CSV, LaTeX) and pictures (PNG, SVG) to this "
              "folder.")  # fmt: skip
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head of every relation.")
def command(
    file: Path,
    model: str | None,
    limit: int | None,
    relations: str | None,
    seed: int,
    out: str | None,
    dark: bool,
    as_json: bool,
) -> None:
    """Find the heads of a model that follow relations of grammar, in the gold trees of FILE (CoNLL-U).

    For every relation: the head whose largest weight on another word finds most arcs, with its reading (dependent →
    head, or head → dependent), chosen on the sentences with even numbers and scored on those with odd ones, beside the
    best fixed offset.

    \b
    heedmap syntax en_ewt-ud-dev.conllu
    heedmap syntax en_ewt-ud-dev.conllu --model smollm2 --limit 500 --relations det,obj --out syntax
    """
    folder = out_folder(out)
    if dark and folder is None:
        raise click.UsageError("--dark is about pictures: say where they go with --out DIR")
    names = None if relations is None else list(parse_names(relations, "--relations"))
    with GoldProgress(model or "minilm", "sentences", quiet=as_json) as tell:
        from heedmap.heads.syntax_findings import chosen, findings
        from heedmap.heads.trees import read_sentences

        next(read_sentences(file, 1))  # refuses what is no treebank, before a model is loaded

        from heedmap.capture.models import resolve
        from heedmap.experiments.syntax import measure_syntax

        loaded = resolve(model)
        found = measure_syntax(loaded, read_sentences(file, limit), seed=seed, tell=tell)
        told = chosen(found.relations, names)
        about = _about(loaded, found, file, limit, seed)
        left_out = 0 if names is not None else len(found.relations) - len(told)
        tables = findings(told, about, causal=found.causal, left_out=left_out)
        files = (
            [] if folder is None else _write(folder, loaded, found, told, tables, facecolor=DARK if dark else "white")
        )
    if as_json:
        best, by_reading, every = (table.document() for table in tables)
        lesson.write_json(best | {"readings": by_reading["rows"], "heads": every["rows"], "files": files})
    else:
        lesson.console().print(page(tables[0], *_verdict(tables[0])))
        for path in files:
            click.echo(path)


def _about(loaded: LoadedModel, found: SyntaxFound, file: Path, limit: int | None, seed: int) -> Any:
    from heedmap.heads.findings import About

    counts = found.counts
    data = data_name(file) + ("" if limit is None else f", first {limit:,} sentences")
    return About(
        loaded.name, loaded.revision, data, found.arcs, seed, command_line(), "arcs",
        {"sentences": counts.sentences, **counts.entries(), **random_weights(loaded)},
    )  # fmt: skip


def _verdict(table: Findings) -> list[Text]:
    """Which relations beat their offset by more than ten points, and which do not, in words."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for row in table:
        names[bool(row["beats_offset"])].append(str(row["relation"]))
    return [
        Text(""),
        Text(f"More than 10 points above the best offset: {', '.join(names[True]) or 'none'}."),
        Text(f"Not: {', '.join(names[False]) or 'none'}."),
    ]


def _write(
    folder: Path,
    loaded: LoadedModel,
    found: SyntaxFound,
    told: list[Relation],
    tables: tuple[Findings, ...],
    facecolor: str,
) -> list[str]:
    from heedmap.experiments.syntax import weights_of
    from heedmap.figures.arrows import arrows_figure
    from heedmap.figures.relations import relations_figure
    from heedmap.figures.save import save
    from heedmap.heads.findings_files import write_findings
    from heedmap.heads.showing import sentence_to_show

    files = [path for table in tables for path in write_findings(table, folder)]
    pictures = {"relations": relations_figure(tables[0], tables[1], facecolor=facecolor)}
    shown = sentence_to_show(told, [(one.sentence, one.units, one.arcs) for one in found.prepared])
    if shown is not None:
        heads, weights = weights_of(loaded, found.prepared[shown.index])
        pictures["sentence"] = arrows_figure(shown, weights[heads.index(shown.head)], loaded.name, facecolor=facecolor)
    files += [save(figure, folder / f"{name}.{kind}") for name, figure in pictures.items() for kind in ("png", "svg")]
    return [str(path) for path in files]
