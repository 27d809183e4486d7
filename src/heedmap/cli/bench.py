"""``heedmap bench``: the sweep beside the other ways to attend, on this machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.experiments.bench import Cases, Row

COLUMNS = 4
"""Lengths side by side; more of them stand in further tables."""


@click.command(short_help="Time the sweep beside the other ways to attend, on this machine.")
@click.option("--lengths", metavar="N,…", default="1024,4096,8192", show_default=True,
              help="Tokens; all: 128 to 131,072, doubling.")  # fmt: skip
@click.option("--head-dims", metavar="D,…", default="64", show_default=True, help="d_k and d_v; all: 32, 64, 128.")
@click.option("--masks", metavar="M,…", default="full,causal", show_default=True, help="full, causal, window; or all.")
@click.option("--dtypes", metavar="T,…", default="fp32", show_default=True, help="fp32, bf16; or all.")
@click.option("--heads", type=click.IntRange(1, 1024), default=9, show_default=True, help="Heads of one call.")
@click.option("--methods", metavar="TEXT", multiple=True, help="Only methods whose name holds this; repeatable.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Turns that each takes.")
@click.option("--seconds", type=float, default=20.0, show_default=True,
              help="Leave a method out where one run would take longer.")  # fmt: skip
@click.option("--device", metavar="cpu|cuda", default="cpu", show_default=True, help="Where the tensors lie.")
@click.option("--busy", is_flag=True, help="Run although other work shares the cores; the figures are then poor.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def command(
    lengths: str,
    head_dims: str,
    masks: str,
    dtypes: str,
    heads: int,
    methods: tuple[str, ...],
    rounds: int,
    seconds: float,
    device: str,
    busy: bool,
    as_json: bool,
) -> None:
    """Time ways to attend side by side: the textbook's weights, torch's attention, stock tricks, heedmap's kernels.

    All run in one process and take turns. Before anything is timed each is held to the textbook's form in float64, and
    on a machine that has other work to do nothing is timed. Ctrl-C prints what was found so far.

    \b
    heedmap bench
    heedmap bench --lengths all --heads 1 --masks causal --json
    """
    from heedmap.experiments.bench import DTYPES, HEAD_DIMS, LENGTHS, MASKS, Cases, document, refuse_if_busy, run_bench

    cases = Cases(
        lengths=_numbers("--lengths", lengths, LENGTHS),
        head_dims=_numbers("--head-dims", head_dims, HEAD_DIMS),
        masks=_words(masks, MASKS),
        dtypes=_words(dtypes, tuple(DTYPES)),
        methods=_methods(methods),
        heads=heads,
        rounds=rounds,
        seconds=seconds,
        device=device,
    )
    refuse_if_busy(busy)
    rows: list[Row] = []
    try:
        with lesson.working("measuring", quiet=as_json) as say:
            for row in run_bench(cases, say):
                rows.append(row)  # noqa: PERF402  (one by one: an interruption keeps those before it)
    finally:
        if as_json:
            lesson.write_json(document(cases, rows))
        elif rows:
            lesson.console().print(Group(*_page(cases, rows)))


def _numbers(option: str, text: str, every: tuple[int, ...]) -> tuple[int, ...]:
    if text.strip() == "all":
        return every
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError("bench", expected=f"{option} as whole numbers with commas between, or all", got=repr(text))
    return tuple(dict.fromkeys(int(part) for part in parts))


def _words(text: str, every: tuple[str, ...]) -> tuple[str, ...]:
    return every if text.strip() == "all" else tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _methods(texts: Sequence[str]) -> tuple[str, ...]:
    from heedmap.experiments.methods import METHODS

    names = [method.name for method in METHODS]
    for text in texts:
        if not any(text in name for name in names):
            raise InputError("bench", expected=f"--methods with a part of: {'; '.join(names)}", got=repr(text))
    return tuple(name for name in names if not texts or any(text in name for text in texts))


def _page(cases: Cases, rows: list[Row]) -> Iterator[Text | Table]:
    for dim, mask, dtype in itertools.product(cases.head_dims, cases.masks, cases.dtypes):
        of_these = [row for row in rows if (row.head_dim, row.mask, row.dtype) == (dim, mask, dtype)]
        lengths = sorted({row.n for row in of_these})
        for start in range(0, len(lengths), COLUMNS):
            shown = lengths[start : start + COLUMNS]
            ratios = "; × of torch's sdpa" if any(row.to_sdpa is not None for row in of_these) else ""
            yield Text(f"\n{cases.heads} × {dim} components, {mask} mask, {dtype}{ratios}", style="bold")
            table = lesson.new_table("", *(f"{n:,}" for n in shown), roomy=False)
            for method in cases.chosen:
                cells = [row for n in shown for row in of_these if (row.method, row.n) == (method.name, n)]
                table.add_row(method.name, *(_cell(row) for row in cells))
            yield table
    for reason in dict.fromkeys(f"{row.method}, {row.mask}: {row.why}" for row in rows if row.why):
        yield Text(f"not run: {reason}")
    legend = ["Medians; measure gives all default statistics, attend the output too, eager's weights alone none."]
    if any(row.status == "too long" for row in rows):
        legend.append(f"Too long: over {cases.seconds:g} s expected.")
    if any(row.status == "would not fit" for row in rows):
        legend.append("Sizes are of tables that would not fit.")
    yield Text(f"\n{' '.join(legend)}\n")


def _cell(row: Row) -> Text:
    if row.timing is None:
        size = lesson.bytes_text(row.needs_bytes)
        words = {"would not fit": size, "too long": "too long", "unsupported": "–"}[row.status]
        return Text(words, style="yellow")
    time = lesson.seconds_text(row.timing.median)
    ratio = "" if row.to_sdpa is None or math.isclose(row.to_sdpa, 1) else f" {row.to_sdpa:5.2f}×"
    return Text(f"{time}{ratio}")
