"""``heedmap scaling``: why attention divides by √d_k, measured beside its prediction, or on the heads of a model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.outputs import Outputs, outputs
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.scaling import Point, Scaling, Settings

_TABLES = (
    ("Spread of the scores, and entropy of a row (nats)", ("spread", "entropy"), 2),
    ("Largest weight of a row, and norm of the softmax's Jacobian", ("largest", "jacobian"), 3),
)
_FORMS = ("raw", "scaled")
_RANDOM = {name: f"--{name}" for name in ("dims", "n", "seeds", "repeats", "correlation")} | {"law": "--components"}


@click.command(short_help="Measure why scores are divided by √d_k, on random vectors or on a model's own heads.")
@click.option("--dims", default="1,2,4,8,16,32,64,128,256,512,1024", show_default=True, metavar="D,…",
              help="Values of d_k.")  # fmt: skip
@click.option("--n", type=click.IntRange(2, 8192), default=100, show_default=True, help="Queries and keys of a draw.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=20, show_default=True,
              help="Independent seeds, over which the intervals are.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Draws of each seed.")
@click.option("--components", "law", type=click.Choice(["gaussian", "uniform", "correlated"]), default="gaussian",
              show_default=True, help="Law of the components, of mean 0 and variance 1.")  # fmt: skip
@click.option("--correlation", type=float, metavar="R", help="Between two components, where they are correlated "
              "(0.1 unless given).")  # fmt: skip
@click.option("--model", metavar="M", help="Measure the heads of this model instead: packaged, folder, GGUF or hub id.")
@click.option("--file", metavar="F", help="The text to run through the model; - for standard input.")
@click.option("--text", metavar="T", help="The text itself, in place of --file.")
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Cut the text to N tokens.")
@click.option("--temperature", "temperatures", multiple=True, type=float, metavar="T",
              help="Also with scores divided by T, on a model's heads; may be repeated.")  # fmt: skip
@outputs()
@click.pass_context
def command(
    context: click.Context,
    dims: str,
    n: int,
    seeds: int,
    repeats: int,
    law: Any,
    correlation: float | None,
    model: str | None,
    file: str | None,
    text: str | None,
    tokens: int | None,
    temperatures: tuple[float, ...],
    outputs: Outputs,
) -> None:
    """Measure why attention divides its scores by √d_k.

    Scores of random vectors spread with √d_k; the softmax of such scores puts nearly everything on one key, and the
    gradient of most rows dies. Each number is given with its 95 % interval over seeds and its prediction.

    \b
    heedmap scaling --png scaling.png
    heedmap scaling --components correlated --correlation 0.2
    heedmap scaling --model minilm --file text.txt --temperature 2
    """
    if model is not None or file is not None or text is not None:
        from heedmap.cli.scaling_heads import measure_model

        _refuse_random(context)
        measure_model(model, file, text, tokens, temperatures, outputs)
        return
    for name, given in (("--tokens", tokens), ("--temperature", temperatures or None)):
        if given is not None:
            raise InputError("scaling", expected=f"{name} with --model", got=f"{name} alone", do="name a model")
    if correlation is not None and law != "correlated":
        raise InputError("scaling", expected="--correlation with --components correlated", got=f"{law} components")

    from heedmap.experiments.scaling import Settings, head_dims_from

    settings = Settings(head_dims_from(dims), n, seeds, repeats, law, 0.1 if correlation is None else correlation)
    found, interrupted = _measure(settings, quiet=outputs.as_json)

    def draw() -> Any:
        from heedmap.figures.scaling import scaling_figure

        return scaling_figure

    outputs.deliver(found.document() | {"interrupted": interrupted}, found.rows(), lambda: _page(found), draw)
    if interrupted:
        lesson.end_interrupted(f"{len(found.settings.head_dims)} of {len(settings.head_dims)} values of d_k")


def _refuse_random(context: click.Context) -> None:
    """Raise where a setting of the random vectors stands beside a model, which has vectors of its own."""
    for name, option in _RANDOM.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError("scaling", expected=f"{option} without a model or a text", got="both", do="leave one out")


def _measure(settings: Settings, *, quiet: bool) -> tuple[Scaling, bool]:
    """What was found, and whether Ctrl-C ended it before its end; without anything to keep the interruption goes on."""
    from heedmap.experiments.scaling import Scaling, run_scaling

    points: list[Point] = []
    with lesson.working("drawing vectors", quiet=quiet) as say:
        try:
            return run_scaling(settings, lambda head_dim: say(f"d_k = {head_dim} done"), points), False
        except KeyboardInterrupt:
            done = tuple(dict.fromkeys(point.head_dim for point in points))
            if not done:
                raise
            return Scaling(replace(settings, head_dims=done), tuple(points)), True


def _page(found: Scaling) -> Group:
    from heedmap.experiments.scaling import agreement

    settings = found.settings
    blocks: list[Any] = [Text("")]
    for title, quantities, decimals in _TABLES:
        blocks.append(Text(title, style="bold"))
        table = lesson.new_table(
            "d_k", *(name for _ in quantities for form in _FORMS for name in (form, "pred.")), roomy=False
        )
        for head_dim in settings.head_dims:
            points = [found.point(head_dim, form, name) for name in quantities for form in _FORMS]
            table.add_row(f"{head_dim:,}", *(cell for point in points for cell in _cells(point, decimals)))
        blocks += [_dimmed(table), Text("")]
    blocks.append(Text("Gradient that reaches a query (norm), its median, and rows with a weight > 0.9", style="bold"))
    table = lesson.new_table("d_k", "raw", "pred.", "scaled", "pred.", "median raw", "scaled", "> 0.9 raw")
    for head_dim in settings.head_dims:
        cells = [cell for form in _FORMS for cell in _cells(found.point(head_dim, form, "gradient"), 2)]
        medians = [f"{found.point(head_dim, form, 'gradient_median').measured.mean:.2g}" for form in _FORMS]
        taken = found.point(head_dim, "raw", "saturated").measured.mean
        table.add_row(f"{head_dim:,}", *cells, *medians, f"{taken:.0%}")
    within, judged = agreement(found.points)
    near = "" if settings.components.exact else "; they are for Gaussian scores, which these come near as d_k grows"
    seeds = "1 seed" if settings.seeds == 1 else f"{settings.seeds:,} seeds"
    judgement = (
        f"{within} of {judged} predictions lie within their interval{near}."
        if judged
        else "A single seed has no interval to hold a prediction to: give --seeds 2 or more."
    )
    blocks += [
        _dimmed(table),
        Text(
            "\n"
            f"{settings.n} queries × {settings.n} keys, {seeds} × {settings.repeats}, {settings.law} components; "
            "± is half the 95 % interval over seeds. raw: q·k; scaled: q·k / √d_k. Spread, Jacobian and "
            "gradient are root mean squares."
        ),
        Text(f"{judgement}\n", style="bold"),
    ]
    return Group(*blocks)


def _dimmed(table: Table) -> Table:
    for column in table.columns:
        if column.header == "pred.":
            column.style = "dim"
    return table


def _cells(point: Point, decimals: int) -> tuple[str, str]:
    """A measurement with half its interval, and its prediction."""
    interval = "" if math.isnan(point.measured.half) else f"±{point.measured.half:.{decimals}f}"
    predicted = "" if point.predicted is None else f"{point.predicted:.{decimals}f}"
    return f"{point.measured.mean:.{decimals}f}{interval}", predicted
