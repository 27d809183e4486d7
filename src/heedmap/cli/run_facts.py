"""What a run is about, in a few lines: the text, the model, the cost, the self-check; and what makes it doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from heedmap.cli.wording import bytes_text, cut, printable, scientific, seconds_text, span

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


def fact_lines(run: Run, width: int) -> list[tuple[str, Text]]:
    """Name and line of each fact that the run knows."""
    named = (
        ("text", text_line(run, width)),
        ("model", model_line(run)),
        ("took", cost_line(run)),
        ("instead", instead_line(run)),
        ("check", check_line(run)),
    )
    return [(name, line) for name, line in named if line is not None]


def text_line(run: Run, width: int) -> Text:
    text = run.meta["text"]
    decoded, generated = text.get("target_tokens"), text.get("generated", 0)
    tokens = run.tokens_of().num_rows - (0 if decoded else generated)
    count = f"{tokens:,} token{'' if tokens == 1 else 's'}"
    if text.get("truncated_from"):
        count += f" (of {text['truncated_from']:,}; cut)"
    if generated:
        count += f" + {generated:,} generated; the last one has read nothing yet"
    elif decoded:
        count += f" + {decoded:,} decoded; the last one has read nothing yet"
    prompt, wrote = _prompt_and_answer(run)
    pieces = [prompt, *(piece for piece in (wrote,) if piece is not None)]
    line = (" → " if generated or decoded else " + ").join(
        f"“{cut(printable(piece), max(width - 16, 20))}”" for piece in pieces
    )
    return Text(f"{line} · {count}")


def _prompt_and_answer(run: Run) -> tuple[str, str | None]:
    """The text that was given, and what follows it: the second of a pair, or what a model wrote."""
    tokens = run.tokens_of()
    if run.text_pair is None and "generated" in tokens.column_names:
        starts = zip(tokens.column("start").to_pylist(), tokens.column("generated").to_pylist(), strict=True)
        first = next((start for start, wrote in starts if wrote and start >= 0), len(run.text))
        return run.text[:first], run.text[first:]
    return run.text, run.text_pair


def model_line(run: Run) -> Text:
    model = run.meta["model"]
    layers = sorted({info.layer for info in run.layers})
    heads = sorted({len(info.heads) for info in run.layers})
    of_heads = sorted({info.query_heads for info in run.layers})
    seen = f"{len({(i.part, i.layer) for i in run.layers})} layers × {span(heads)} heads"
    total = model.get("layers")
    if (isinstance(total, int) and total != len(layers)) or heads != of_heads:
        seen += f" (of {total or len(layers)} × {span(of_heads)})"
    pieces = [model.get("name"), model.get("class"), seen, model.get("dtype")]
    return Text(" · ".join(printable(str(piece)) for piece in pieces if piece))


def cost_line(run: Run) -> Text | None:
    cost = run.meta.get("cost") or {}
    seconds = cost.get("seconds") or {}
    if seconds.get("total") is None:
        return None
    steps = [f"{name} {seconds_text(seconds[name])}" for name in ("load", "forward") if seconds.get(name) is not None]
    line = seconds_text(seconds["total"]) + (f" ({', '.join(steps)})" if steps else "")
    if cost.get("peak_bytes"):
        line += f" · peak memory {bytes_text(cost['peak_bytes'])}"
    return Text(line)


def instead_line(run: Run) -> Text | None:
    needed = (run.meta.get("cost") or {}).get("output_attentions_bytes")
    return None if not needed else Text(f"output_attentions would have held {bytes_text(needed)} of weights")


def check_line(run: Run) -> Text | None:
    check = run.meta.get("self_check")
    if check is None:
        return Text("not compared with the model's own eager attention", style="yellow")
    part = f"{check['part']} " if several_parts(run) and "part" in check else ""
    where = f"budget {scientific(check.get('budget'))}, largest in head {part}{check.get('layer')}.{check.get('head')}"
    rows = check.get("rows") or 0
    if rows < max(info.query_len for info in run.layers):
        where += f", over the first {rows:,} tokens"
    error = scientific(check.get("max_abs_error"))
    if check.get("passed"):
        return Text(f"✓ within {error} of the model's own eager attention ({where})", style="green")
    if check.get("max_abs_error") is not None and check["max_abs_error"] <= (check.get("budget") or 0):
        path = scientific(check.get("path_difference"))
        return Text(f"✗ FAILED: the model's output differs by {path} of the largest while looked at", style="bold red")
    return Text(f"✗ FAILED: {error} from the model's own eager attention ({where})", style="bold red")


def several_parts(run: Run) -> bool:
    """Whether heads need the name of their part."""
    return len({part for part, _, _ in run.heads}) > 1


def warnings_of(run: Run) -> list[str]:
    """What makes the numbers of a run doubtful, each in a sentence."""
    found = []
    initialised = run.meta["model"].get("initialised") or 0
    if initialised:
        weights = "weight of the model was" if initialised == 1 else "weights of the model were"
        found.append(
            f"{initialised} {weights} not in its files and newly initialised: attention that depends on them is random"
        )
    check = run.meta.get("self_check")
    if check is not None and not check.get("passed"):
        found.append(
            "the self-check FAILED: these weights are not the model's own; do not rely on them, and please report it"
        )
    if check is not None and not check.get("loaded_agrees", True):
        found.append(
            "the attention that the model was loaded with differs from its own eager one by "
            f"{scientific(check.get('loaded_difference'))} of the largest output, beyond rounding"
        )
    if check is not None and not check.get("output_finite", True):
        found.append(
            "the model's own output holds NaN or infinity: its weights may be damaged, or its dtype too narrow"
        )
    return found
