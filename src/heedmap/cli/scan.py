"""``heedmap scan``: many texts through a model, into a set that can be asked, compared and gone on with."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.status import Status

from heedmap.cli.selection import parse_heads, parse_layers, parse_names
from heedmap.cli.wording import counted


@click.command(short_help="Measure what every head does over many texts: a file, a folder, a data set.")
@click.argument("texts")
@click.option("--model", metavar="M", help="As for look: a packaged model (minilm is the default), a folder, a GGUF "
              "file, or a name on a model hub.")  # fmt: skip
@click.option("--out", metavar="SET", required=True, type=click.Path(path_type=Path), help="The folder of the set; "
              "one that was interrupted is gone on with.")  # fmt: skip
@click.option("--column", metavar="C", help="The field that holds the text, in JSONL, CSV, Parquet and data sets "
              "(text, or the only one).")  # fmt: skip
@click.option("--by", type=click.Choice(["line", "file"]), help="Of plain text: a text a line, or a file. (Lines of a "
              "file, whole files of a folder.)")  # fmt: skip
@click.option("--split", metavar="S", help="Of a Hugging Face data set (train).")
@click.option("--subset", metavar="S", help="Of a Hugging Face data set on the hub.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N texts.")
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Cut each text to N tokens; longer ones than "
              "the model takes are else left out.")  # fmt: skip
@click.option("--layers", metavar="L", help="Only these layers: 0-5,8.")
@click.option("--heads", metavar="H", help="Only these heads: 0-3 in every layer, 5.11 for head 11 of layer 5.")
@click.option("--statistics", default="default", metavar="S", help="Measure these too, names parted by commas: "
              "induction,duplicate,class_mass,max_score …")  # fmt: skip
@click.option("--budget", type=click.IntRange(min=1), metavar="P", help="Pairs of tokens of a batch, longest² × texts "
              "(262,144).")  # fmt: skip
@click.option("--shard-texts", type=click.IntRange(min=1), metavar="N", help="Texts of a shard, what is done again at "
              "most (1,024).")  # fmt: skip
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", help="Processes of this machine, or "
              "Ray: pip install 'heedmap[ray]'.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), default=1, metavar="N", help="Processes or Ray actors, each "
              "with the model (1). One for each core is fastest, where memory allows.")  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Of torch in each worker, instead of an equal "
              "part.")  # fmt: skip
@click.option("--address", metavar="A", help="Of a running Ray cluster: auto, host:6379 or ray://host:10001.")
@click.option("--store", type=click.IntRange(min=0), default=0, metavar="N", help="Store the N texts that are examples "
              "most often as ordinary runs.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Stop at the first text that cannot be measured.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the summary.")
def command(
    texts: str,
    model: str | None,
    out: Path,
    column: str | None,
    by: str | None,
    split: str | None,
    subset: str | None,
    limit: int | None,
    tokens: int | None,
    layers: str | None,
    heads: str | None,
    statistics: str,
    budget: int | None,
    shard_texts: int | None,
    engine: str,
    workers: int,
    threads: int | None,
    address: str | None,
    store: int,
    strict: bool,
    as_json: bool,
) -> None:
    """Measure what every head does in each of TEXTS and over all of them.

    TEXTS is a .jsonl, .txt, .csv, .tsv or .parquet file, a folder of such files, or a Hugging Face data set on disk or
    by name. Stopped at any point, by Ctrl-C or by a power cut, the same command goes on from there, to the same set.

    \b
    heedmap scan reviews.jsonl --out sets/reviews
    heedmap scan books/ --model smollm2 --tokens 2048 --workers 2 --out sets/books
    heedmap query sets/reviews "SELECT * FROM types WHERE holds"
    """
    chosen_layers = None if layers is None else parse_layers(layers)
    chosen_heads = None if heads is None else parse_heads(heads)
    names = parse_names(statistics)

    # standard output is for the result alone, and Ray prints there what befalls its actors
    with contextlib.redirect_stdout(sys.stderr), _Progress(quiet=as_json) as progress:
        from heedmap.cli.set_summary import print_set
        from heedmap.textsets.batches import BUDGET
        from heedmap.textsets.scan import scan
        from heedmap.textsets.settings import PER_SHARD

        try:
            found = scan(
                texts,
                model,
                out=out,
                column=column,
                by=by,  # type: ignore[arg-type]
                split=split,
                subset=subset,
                limit=limit,
                layers=chosen_layers,
                heads=chosen_heads,
                statistics=names,
                max_tokens=tokens,
                budget=budget or BUDGET,
                shard_texts=shard_texts or PER_SHARD,
                engine=engine,  # type: ignore[arg-type]
                workers=workers,
                threads=threads,
                address=address,
                keep=store,
                strict=strict,
                progress=progress,
            )
        except KeyboardInterrupt:
            progress.__exit__(None, None, None)
            click.echo(f"kept in {out}: {progress.kept}; the same command goes on from there", err=True)
            raise
    print_set(found, as_json=as_json)


class _Progress:
    """A line on standard error that says how far the scan is; nothing where that is no terminal, or when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        screen = Console(file=sys.stderr)
        self._status = None if quiet or not screen.is_terminal else Status("loading", console=screen)
        self.kept = "no finished shard yet"

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, stage: str, shards: int, texts: int) -> None:
        if stage == "measure":
            self.kept = f"{counted(texts, 'text')} in {counted(shards, 'finished shard')}"
        line = {
            "measure": f"measuring: {counted(texts, 'text')} in {counted(shards, 'shard')} done",
            "merge": f"putting {counted(shards, 'shard')} together",
            "store": f"storing runs: {shards:,} of {texts:,}",
        }[stage]
        if self._status is not None:
            self._status.update(line)
