"""``heedmap plan``: memory and time of a model on a text of N tokens, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.outputs import Outputs, outputs

if TYPE_CHECKING:
    from heedmap.experiments.plan import Plan


@click.command(short_help="Predict memory and time of a model on a text of N tokens, before anything runs.")
@click.argument("model")
@click.option("--tokens", type=click.IntRange(min=1), required=True, metavar="N", help="Length of the text.")
@click.option("--batch", type=click.IntRange(1, 1_000_000), default=1, show_default=True, metavar="B",
              help="Texts at once.")  # fmt: skip
@outputs(picture=False)
def command(model: str, tokens: int, batch: int, outputs: Outputs) -> None:
    """Predict what a text of N tokens costs MODEL, from its config alone.

    MODEL is a packaged model (minilm, smollm2), a folder, a config.json, a GGUF file or a hub id. Its weights are not
    read; this machine's speed is measured for two seconds.

    \b
    heedmap plan smollm2 --tokens 8192
    heedmap plan path/to/config.json --tokens 4096 --batch 8
    """
    with lesson.working("counting", quiet=outputs.as_json):
        from heedmap.experiments.plan import run_plan

        plan = run_plan(model, tokens, batch)
    document = plan.document()
    outputs.deliver(document, document["costs"], lambda: _page(plan))


def _page(plan: Plan) -> Group:
    cost = plan.cost
    positions = "any length" if plan.positions is None else f"{plan.positions:,} positions"
    title = (
        f"\n{plan.model} · {plan.architecture} · {plan.parameters / 1e6:,.0f} M parameters · {plan.layers} layers, "
        f"{plan.heads} heads · {positions}"
    )
    batch = "" if plan.batch == 1 else f" × {plan.batch} texts"
    facts = lesson.new_table(f"{plan.tokens:,} tokens{batch}", "output_attentions", "heedmap look")
    facts.add_row("cells, n² of every head", f"{cost.cells:,}", f"{cost.cells:,}")
    facts.add_row("attention matrices held", lesson.bytes_text(cost.attentions_bytes), "none")
    facts.add_row(
        "peak memory of the process", *(lesson.bytes_text(peak) for peak in (
            cost.attentions_peak_bytes, cost.sweep_peak_bytes))
    )  # fmt: skip
    free = lesson.bytes_text(plan.available_bytes)
    facts.add_row(f"fits here ({free} free)", _fits(cost.attentions_fit), _fits(cost.sweep_fits))
    facts.add_row("run folder on disk", "", lesson.bytes_text(cost.run_bytes))
    facts.add_row(
        "operations", f"{(cost.product_operations + cost.attention_operations) / 1e9:,.0f} G",
        f"{(cost.product_operations + cost.attention_operations) / 1e9:,.0f} G",
    )  # fmt: skip
    slow = lesson.seconds_text(cost.attentions_seconds) if cost.attentions_fit else "does not fit"
    facts.add_row("forward pass here, about", slow, lesson.seconds_text(cost.seconds))
    return Group(
        Text(title, style="bold"),
        facts,
        Text("\nOther lengths", style="bold"),
        _lengths(plan),
        Text(
            f"\nFrom the config alone; speed measured here: {plan.speed.products_per_second / 1e9:,.0f} GFLOP/s in "
            f"matrix products, {1e-6 / plan.speed.sweep_cell_seconds:,.0f} million cells a second swept.\n"
        ),
    )


def _lengths(plan: Plan) -> Table:
    table = lesson.new_table("tokens", "cells", "attentions", "peak", "fits", "heedmap", "fits", "run", "about")
    for cost in plan.costs:
        chosen = "bold" if cost.tokens == plan.tokens else ""
        table.add_row(
            f"{cost.tokens:,}", lesson.count_text(cost.cells), lesson.bytes_text(cost.attentions_bytes),
            lesson.bytes_text(cost.attentions_peak_bytes), _fits(cost.attentions_fit),
            lesson.bytes_text(cost.sweep_peak_bytes), _fits(cost.sweep_fits), lesson.bytes_text(cost.run_bytes),
            lesson.seconds_text(cost.seconds), style=chosen,
        )  # fmt: skip
    return table


def _fits(fits: bool) -> Text:
    return Text("yes", style="green") if fits else Text("no", style="bold red")
