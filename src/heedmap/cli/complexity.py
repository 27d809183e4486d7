"""``heedmap complexity``: time and peak memory of three ways to attend, over lengths, with fitted exponents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.picture import DARK, picture_path
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.complexity import Complexity, Point


@click.command(short_help="Measure how time and memory grow with length, for three ways to attend.")
@click.option("--shortest", type=click.IntRange(1), default=512, show_default=True, metavar="N", help="First length.")
@click.option("--longest", type=click.IntRange(1), default=65_536, show_default=True, metavar="N",
              help="Lengths double up to here.")  # fmt: skip
@click.option("--per-doubling", type=click.IntRange(1, 16), default=1, show_default=True, metavar="N",
              help="Lengths in each doubling.")  # fmt: skip
@click.option("--heads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Heads of one call.")
@click.option("--head-dim", type=click.IntRange(1, 4096), default=64, show_default=True, help="d_k and d_v.")
@click.option("--methods", metavar="M,…", help="Among eager (weights kept), sdpa (torch's fused attention) and "
              "heedmap's kernels; all unless given.")  # fmt: skip
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Skip runs that would take longer.")
@click.option("--memory", type=float, metavar="GB", help="Skip runs that would take more; what is free unless given.")
@click.option("--fit-from", type=click.IntRange(1), default=4096, show_default=True, metavar="N",
              help="Fit exponents to lengths from here on.")  # fmt: skip
@click.option("--png", metavar="F", help="Draw the result as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--parquet", metavar="F", help="Write the points as a table.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def command(
    shortest: int,
    longest: int,
    per_doubling: int,
    heads: int,
    head_dim: int,
    methods: str | None,
    seconds: float,
    memory: float | None,
    fit_from: int,
    png: str | None,
    dark: bool,
    parquet: str | None,
    as_json: bool,
) -> None:
    """Measure how time and memory of attention grow with the number of tokens.

    Each point is a process of its own. What is predicted not to fit into memory is not run but listed with its size,
    so the machine is safe. Exponents are fitted to cost = fixed + factor · nᵖ.

    \b
    heedmap complexity --png complexity.png
    heedmap complexity --heads 9 --longest 16384 --json
    """
    picture, table = picture_path(png), lesson.parquet_path(parquet)

    from heedmap.experiments.complexity import Settings, run_complexity

    if memory is not None and not math.isfinite(memory):
        raise InputError("complexity", expected="--memory in GB", got=str(memory))
    settings = Settings(
        shortest=shortest,
        longest=longest,
        per_doubling=per_doubling,
        heads=heads,
        head_dim=head_dim,
        seconds=seconds,
        memory=None if memory is None else int(memory * 1e9),
        fit_from=fit_from,
        methods=() if methods is None else tuple(name.strip() for name in methods.split(",")),
    )
    with lesson.working("measuring", quiet=as_json) as say:
        found = run_complexity(settings, say)
    document = lesson.finite(found.document())
    if picture is not None:
        from heedmap.figures.complexity import complexity_figure
        from heedmap.figures.save import save

        save(complexity_figure(document, facecolor=DARK if dark else "white"), picture)
    if table is not None:
        lesson.write_parquet(document["points"], table)
    if as_json:
        lesson.write_json(document)
    else:
        lesson.console().print(_page(found))


def _page(found: Complexity) -> Group:
    settings = found.settings
    peak = found.product_operations_per_second
    table = lesson.new_table("method", "n", "cells", "time", "GFLOP/s", "of peak", "memory", "predicted", roomy=False)
    for method in settings.chosen:
        for point in found.points:
            if point.method == method:
                table.add_row(method, *_cells(point, peak))
        table.add_section()
    fits = lesson.new_table("method", "time ∝ n^", "memory ∝ n^", "and fixed", "lengths")
    for method in settings.chosen:
        laws = [found.exponent(method, quantity) for quantity in ("seconds", "bytes")]
        words = ["not fitted" if law is None else f"{law.exponent.mean:.2f} ± {law.exponent.half:.2f}" for law in laws]
        memory = laws[1]
        fixed = "" if memory is None or memory.fixed < 2**20 else lesson.bytes_text(memory.fixed)
        fits.add_row(method, *words, fixed, "" if memory is None else str(memory.points))
    machine = found.machine
    return Group(
        Text(f"\n{settings.heads} × {settings.head_dim} components, float32, no mask", style="bold"),
        table,
        Text("\nExponents, with 95 % intervals", style="bold"),
        fits,
        Text(
            f"\n{machine['processor']}, {machine['threads']} threads; matrix product measured at {peak / 1e9:,.0f} "
            f"GFLOP/s. GFLOP/s counts 2·n²·d_k for Q·Kᵀ and 2·n²·d_v for weights·V; memory is the peak beyond query, "
            f"key and value; predicted from shapes alone. Exponents from n = {settings.fit_from:,} on.\n"
        ),
    )


def _cells(point: Point, peak: float) -> tuple[Any, ...]:
    predicted = lesson.bytes_text(point.predicted_bytes)
    head = (f"{point.n:,}", f"{point.cells:,}")
    if point.seconds is None or point.bytes is None or point.operations_per_second is None:
        why = point.status
        if point.status == "too long" and point.predicted_seconds is not None:
            why = f"about {lesson.seconds_text(point.predicted_seconds)}"
        return (*head, Text(why, style="yellow"), "", "", "", predicted)
    rate = point.operations_per_second
    return (*head, lesson.seconds_text(point.seconds), f"{rate / 1e9:,.0f}", f"{rate / peak:.0%}",
            lesson.bytes_text(point.bytes), predicted)  # fmt: skip
