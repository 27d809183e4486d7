"""``heedmap complexity``: time and peak memory of three ways to attend, over lengths, with fitted exponents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.outputs import Outputs, outputs
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.complexity import Complexity, Point, Settings
    from heedmap.experiments.intervals import PowerLaw


@click.command(short_help="Measure how time and memory grow with length, for three ways to attend.")
@click.option("--shortest", type=click.IntRange(1), default=512, show_default=True, metavar="N", help="First length.")
@click.option("--longest", type=click.IntRange(1), default=65_536, show_default=True, metavar="N",
              help="Lengths double up to here.")  # fmt: skip
@click.option("--per-doubling", type=click.IntRange(1, 16), default=2, show_default=True, metavar="N",
              help="Lengths in each doubling.")  # fmt: skip
@click.option("--heads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Heads of one call.")
@click.option("--head-dim", type=click.IntRange(1, 4096), default=64, show_default=True, help="d_k and d_v.")
@click.option("--methods", metavar="M,…", help="Among eager (weights kept), sdpa (torch's fused attention) and "
              "heedmap's kernels; all unless given.")  # fmt: skip
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Skip runs that would take longer; at "
              "each length three are made where they fit in here.")  # fmt: skip
@click.option("--memory", type=float, metavar="GB", help="Skip runs that would take more; what is free unless given.")
@click.option("--fit-from", type=click.IntRange(1), default=4096, show_default=True, metavar="N",
              help="Fit exponents to lengths from here on.")  # fmt: skip
@outputs()
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
    outputs: Outputs,
) -> None:
    """Measure how time and memory of attention grow with the number of tokens.

    Each point is a process of its own, and its time the median of three runs or more. What is predicted not to fit
    into memory is not run but listed with its size, so the machine is safe. Exponents are fitted to
    bytes = fixed + factor · nᵖ and seconds = factor · nᵖ, the latter by the median of slopes, which a slow point does
    not move.

    \b
    heedmap complexity --png complexity.png
    heedmap complexity --heads 9 --longest 16384 --json
    """
    from heedmap.experiments.complexity import Settings

    if memory is not None and not math.isfinite(memory * 1e9):
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
    found, interrupted = _measure(settings, quiet=outputs.as_json)

    def draw() -> Any:
        from heedmap.figures.complexity import complexity_figure

        return complexity_figure

    document = found.document()
    outputs.deliver(document | {"interrupted": interrupted}, document["points"], lambda: _page(found), draw)
    if interrupted:
        lesson.end_interrupted(f"{len(found.points)} of {len(settings.chosen) * len(settings.lengths)} points")


def _measure(settings: Settings, *, quiet: bool) -> tuple[Complexity, bool]:
    """What was found, and whether Ctrl-C ended it before its end; without anything to keep the interruption goes on."""
    from heedmap.experiments.complexity import Measured, run_complexity

    measured = Measured(settings)
    with lesson.working("measuring", quiet=quiet) as say:
        try:
            return run_complexity(settings, say, measured), False
        except KeyboardInterrupt:
            if not measured.points:
                raise
            return measured.fitted(), True


def _page(found: Complexity) -> Group:
    settings, machine = found.settings, found.machine
    best = max(found.products, key=lambda product: product["operations_per_second"])
    shape = " × ".join(f"{best[name]:,}" for name in ("rows", "inner", "columns"))
    threads = f"{machine['threads']} thread" + ("" if machine["threads"] == 1 else "s")
    return Group(
        Text(f"\n{settings.heads} × {settings.head_dim} components, float32, no mask", style="bold"),
        _points(found),
        Text("\nExponents, with 95 % intervals", style="bold"),
        _exponents(found),
        Text(
            f"\n{machine['processor']}, {threads}. Counted, from shapes alone: operations, 2·n²·d_k "
            "for Q·Kᵀ and 2·n²·d_v for weights·V (the softmax adds 5·n²), and bytes. Measured: time, the median of "
            "runs, and memory, the peak beyond query, key and value.\n"
        ),
        Text(
            f"× mm: GFLOP/s of those operations as a multiple of torch's fastest matrix product here, "
            f"{best['operations_per_second'] / 1e9:,.0f} GFLOP/s (the best of {len(found.products)} shapes, {shape}). "
            "It is a yardstick and no ceiling: torch's library may not use this processor's widest instructions, and "
            "a kernel that does, and keeps its tiles in the cache, passes 1.\n"
        ),
    )


def _points(found: Complexity) -> Table:
    table = lesson.new_table("n", "cells", "operations", "time", "GFLOP/s", "× mm", "counted", "memory", roomy=False)
    for method in found.settings.chosen:
        table.add_row(Text(method, style="bold"))
        for point in found.points:
            if point.method == method:
                table.add_row(*_cells(point))
        table.add_section()
    return table


def _cells(point: Point) -> tuple[str | Text, ...]:
    counted = lesson.bytes_text(point.predicted_bytes)
    cells = f"{point.cells:,}" if point.cells < 1e10 else lesson.count_text(point.cells)
    head = (f"{point.n:,}", cells, lesson.count_text(point.product_operations))
    if point.seconds is None or point.bytes is None or point.operations_per_second is None:
        why = point.status
        if point.status == "too long" and point.predicted_seconds is not None:
            why = f"about {_roughly(point.predicted_seconds)}"
        return (*head, Text(why, style="yellow"), "", "", counted, "")
    times = "" if point.times_product is None else f"{point.times_product:.2f}"
    billions = point.operations_per_second / 1e9
    rate = f"{billions:,.0f}" if billions >= 10 else f"{billions:.1f}"
    return (*head, lesson.seconds_text(point.seconds), rate, times, counted, lesson.bytes_text(point.bytes))


def _roughly(seconds: float) -> str:
    """A prediction: no seconds beside minutes."""
    return f"{seconds / 60:,.0f} min" if 100 <= seconds < 7200 else lesson.seconds_text(seconds)


def _exponents(found: Complexity) -> Table:
    table = lesson.new_table("method", "time ∝ n^", "", "memory ∝ n^", "", "and fixed", "lengths")
    for method in found.settings.chosen:
        seconds, memory = (found.exponent(method, quantity) for quantity in ("seconds", "bytes"))
        fixed = "" if memory is None or memory.fixed < 2**20 else lesson.bytes_text(memory.fixed)
        lengths = "" if memory is None else str(memory.points)
        table.add_row(method, *_law(seconds), *_law(memory), fixed, lengths)
    return table


def _law(law: PowerLaw | None) -> tuple[str, str]:
    if law is None:
        return "not fitted", ""
    return f"{law.exponent.mean:.2f}", f"{law.exponent.low:.2f} to {law.exponent.high:.2f}"
