"""``heedmap look``: from words to the exact attention of every head."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from heedmap.cli.passages import read_passages
from heedmap.cli.picture import picture_path
from heedmap.cli.selection import parse_heads, parse_layers, parse_names
from heedmap.cli.source import Source, read_pair, read_source, read_target, run_folder
from heedmap.errors import InputError

RUNS = Path("runs")
EXIT_SELF_CHECK = 3


@click.command(short_help="Look at a text: measure every head of a model over it and print what stands out.")
@click.argument("text", required=False)
@click.option("--file", metavar="F", help="Read the text from a UTF-8 file; - for standard input.")
@click.option("--of", "of_set", metavar="SET", type=click.Path(path_type=Path), help="TEXT is the number of a text of "
              "this set (heedmap scan): look at it with the set's model, into the set.")  # fmt: skip
@click.option("--pair", metavar="TEXT", help="A second text, for models that read pairs.")
@click.option("--target", metavar="TEXT", help="For an encoder-decoder: the text that its decoder reads.")
@click.option("--generate", type=click.IntRange(min=1), metavar="N", help="Let the model go on with its N most likely "
              "tokens, and look at the whole.")  # fmt: skip
@click.option("--model", metavar="M", help="A packaged model (minilm is the default, smollm2, gemma3-270m), a folder, "
              "a GGUF file, or a name on a model hub.")  # fmt: skip
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Cut the text to N tokens.")
@click.option("--layers", metavar="L", help="Only these layers: 0-5,8.")
@click.option("--heads", metavar="H", help="Only these heads: 0-3 in every layer, 5.11 for head 11 of layer 5.")
@click.option("--statistics", default="default", metavar="S", help="What to measure: names parted by "
              "commas, default, or all; heedmap statistics lists them.")  # fmt: skip
@click.option("--spans", metavar="F", help="Measure how much each token reads of the passages that a JSON file "
              "names: {\"question\": \"Who was it?\", \"source\": [0, 120]}, by words or characters.")  # fmt: skip
@click.option("--marked", is_flag=True, help="The text marks its passages: [[question]]Who was it?[[/question]]. The "
              "marks are taken out.")  # fmt: skip
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="The folder of the run, instead of "
              "runs/<words of the text>. An earlier run there is replaced.")  # fmt: skip
@click.option("--png", metavar="F", help="Draw all heads and the most telling one, as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--no-inputs", is_flag=True, help="Keep no query and key: a smaller run, without exact windows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the summary.")
@click.pass_context
def command(
    context: click.Context,
    text: str | None,
    file: str | None,
    of_set: Path | None,
    pair: str | None,
    target: str | None,
    generate: int | None,
    model: str | None,
    tokens: int | None,
    layers: str | None,
    heads: str | None,
    statistics: str,
    spans: str | None,
    marked: bool,
    out: Path | None,
    png: str | None,
    dark: bool,
    no_inputs: bool,
    as_json: bool,
) -> None:
    """Look at TEXT: measure every attention head of a model over it, keep the run, and print what stands out.

    \b
    heedmap look "The cat sat on the mat because it was tired"
    heedmap look --file alice.txt --model smollm2 --tokens 8192 --png alice.png
    heedmap look "The capital of France is" --model smollm2 --generate 64
    echo "some text" | heedmap look --file - --json

    Exit code 2: something is wrong with what was asked for. 3: the self-check failed, do not trust the run.
    """
    if of_set is None:
        source = read_source(text, file)
    else:
        source, model, tokens, out = _again(of_set, text, file, model, tokens, out)
        text = None
    second = read_pair(pair)
    wanted_layers = None if layers is None else parse_layers(layers)
    wanted_heads = None if heads is None else parse_heads(heads)
    picture = picture_path(png)
    names = parse_names(statistics)
    if picture is not None and not isinstance(names, str):
        names += [name for name in ("entropy", "map_max") if name not in names]  # what the picture is made from
    source, passages = read_passages(source, spans, marked=marked)
    folder = _run_path(out, source, model, second)
    if text is not None and os.path.isfile(text):  # noqa: PTH113 — Path.is_file raises for too long a name
        click.echo(
            f"note: looking at the words {text!r} themselves; for the text in that file use --file {text}", err=True
        )

    from heedmap.cli.progress import LayerProgress
    from heedmap.cli.report import heard, report, summarise

    with LayerProgress(model or "minilm", quiet=as_json) as progress, heard() as told:
        from heedmap.capture.look import look

        run = look(
            source.text,
            model,
            text_pair=second,
            target=read_target(target),
            generate=generate,
            out=folder,
            layers=wanted_layers,
            heads=wanted_heads,
            statistics=names,
            spans=passages,
            max_tokens=tokens,
            keep_inputs=not no_inputs,
            progress=progress,
            command=["heedmap", *sys.argv[1:]],
        )
        progress("summarise", 0, 1)
        summary = summarise(run, picture, dark=dark)
    report(summary, told, as_json=as_json)
    if not summary.trusted:
        context.exit(EXIT_SELF_CHECK)


def _again(
    of_set: Path, text: str | None, file: str | None, model: str | None, tokens: int | None, out: Path | None
) -> tuple[Source, str | None, int | None, Path]:
    """A text of a set by its number, with the set's model and length unless others are asked for, and its folder."""
    from heedmap.sets.reader import open_set
    from heedmap.sets.schema import RUNS as STORED
    from heedmap.textsets.again import text_again

    if file is not None or text is None or not text.isdecimal():
        raise InputError(
            "look", expected="the number of a text with --of", got=repr(text) if file is None else "--file"
        )
    found = open_set(of_set)
    plan = found.meta["plan"]
    own = model is None and tokens is None
    folder = of_set / STORED / f"text-{int(text)}" if own and out is None else out
    if model is None and plan["model"] == "memory":
        raise InputError("look", expected="--model for a set of a model in memory", got="none")
    source = Source(text_again(found, int(text)), f"text-{int(text)}")
    return source, model or plan["model"], tokens or plan["max_tokens"], folder or RUNS / f"text-{int(text)}"


def _run_path(out: Path | None, source: Source, model: str | None, pair: str | None) -> Path:
    """Where the run goes; raises ``RunError`` for a place that may not be replaced, before a model is loaded."""
    from heedmap.runs.folder import check_target

    path = run_folder(RUNS, source, model, pair) if out is None else out
    check_target(path, overwrite=True, where="look")
    return path
