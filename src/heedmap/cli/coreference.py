"""``heedmap coreference``: which head looks from a mention to its antecedent, on gold chains and on GAP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.gold import GoldProgress, data_name, random_weights
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.capture.models import LoadedModel
    from heedmap.heads.findings import Findings
    from heedmap.heads.gap import Example
    from heedmap.heads.mentions import Document


@click.command(short_help="Find the heads that look from a mention to its antecedent, on gold data.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--model", metavar="M", help="A packaged model (minilm is the default, smollm2, gemma3-270m), a folder, "
              "a GGUF file, or a name on a model hub.")  # fmt: skip
@click.option("--tokens", type=click.IntRange(min=8), metavar="N", help="Cut documents into windows of at most N "
              "tokens (as many as the model reads, unless given).")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=2), metavar="N", help="The first N documents, and examples of GAP, "
              "only.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap.")
@click.option("--out", metavar="DIR", help="Write the tables (Parquet, CSV, LaTeX) to this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head.")
def command(
    files: tuple[Path, ...],
    model: str | None,
    tokens: int | None,
    limit: int | None,
    seed: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Find the heads of a model that look from a mention to an earlier one of the same thing.

    FILES are CoNLL-U with chains (Entity in column MISC, as GUM and CorefUD have them), each a document or several, and
    GAP's tab-separated file. For chains: the head whose largest weight on the head words of earlier mentions is most
    often right, beside the nearest mention and the nearest with the same head word. For GAP: F1 by gender.

    \b
    heedmap coreference GUM_bio_*.conllu
    heedmap coreference gap-validation.tsv --model smollm2 --out gap
    """
    folder = out_folder(out)
    with GoldProgress(model or "minilm", "texts", quiet=as_json) as tell:
        from heedmap.heads.gap import is_gap

        _check_once(files)
        gap = [file for file in files if is_gap(file)]
        chained = [file for file in files if file not in gap]
        documents = _documents(chained, limit)
        examples = _examples(gap, limit)

        from heedmap.capture.models import resolve

        loaded = resolve(model)
        tables: list[tuple[Findings, Findings]] = []
        first = "" if limit is None else f"; first {limit:,}"
        if documents:
            from heedmap.experiments.coreference import measure_chains
            from heedmap.heads.coreference_findings import chain_findings
            from heedmap.heads.findings import About

            chains = measure_chains(loaded, documents, window=tokens, seed=seed, tell=tell)
            more = {"window": "as long as the model reads" if tokens is None else f"at most {tokens:,} tokens"}
            about = About(
                loaded.name, loaded.revision, data_name(*chained) + first, chains.items, seed, command_line(),
                "mentions", more | chains.counts.entries() | random_weights(loaded),
            )  # fmt: skip
            tables.append(chain_findings(chains.classes, about))
        if examples:
            tables.append(_gap(loaded, examples, data_name(*gap) + first, seed, tell))
    paths: list[str] = []
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        paths = [str(path) for pair in tables for table in pair for path in write_findings(table, folder)]
    if as_json:
        lesson.write_json({
            "tables": [table.document() | {"heads": every.document()["rows"]} for table, every in tables],
            "files": paths,
        })  # fmt: skip
    else:
        for table, _ in tables:
            lesson.console().print(page(table))
        for path in paths:
            click.echo(path)


def _check_once(files: tuple[Path, ...]) -> None:
    """Refuse a file that is named twice: a head would be chosen and scored on the same texts."""
    seen: set[Path] = set()
    for file in files:
        if (real := file.resolve()) in seen:
            raise InputError("coreference", expected="each file once", got=f"{file} twice")
        seen.add(real)


def _documents(files: list[Path], limit: int | None) -> list[Document]:
    from heedmap.heads.mentions import documents_of
    from heedmap.heads.trees import read_sentences

    found = [document for file in files for document in documents_of(read_sentences(file), file.stem)]
    return found if limit is None else found[:limit]


def _examples(files: list[Path], limit: int | None) -> list[Example]:
    from heedmap.heads.gap import read_examples

    found = [example for file in files for example in read_examples(file, limit)]
    if files and len(found) < 2:
        raise InputError(
            "coreference", expected="two examples of GAP at least, one to choose a head on and one to score it on",
            got=f"{len(found)}",
        )  # fmt: skip
    return found if limit is None else found[:limit]


def _gap(
    loaded: LoadedModel, examples: list[Example], data: str, seed: int, tell: GoldProgress
) -> tuple[Findings, Findings]:
    from heedmap.experiments.coreference import measure_gap
    from heedmap.heads.coreference_findings import gap_findings
    from heedmap.heads.findings import About

    found = measure_gap(loaded, examples, tell=tell)
    more = {"examples without an answer (too long, shared tokens)": found.lost} if found.lost else {}
    more = more | random_weights(loaded)
    about = About(
        loaded.name, loaded.revision, data, len(examples), seed, command_line(), "examples", more
    )  # fmt: skip
    return gap_findings(examples, found.answers, found.heads, about, seed)
