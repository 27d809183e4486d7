"""The summary of a set on the terminal: what was measured, what its heads do, what was left out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from heedmap.cli import lesson
from heedmap.cli.wording import counted, printable

if TYPE_CHECKING:
    from heedmap.sets.reader import TextSet

_LISTED = 4
_REASONS = 5


def print_set(found: TextSet, *, as_json: bool) -> None:
    """Print the summary, or one JSON document."""
    if as_json:
        lesson.write_json(document(found))
    else:
        lesson.console().print(page(found))


def document(found: TextSet) -> dict[str, Any]:
    """The set as plain data: its manifest, how many heads are of each type, and why texts were left out."""
    held = Counter(row["type"] for row in found.table("types").to_pylist() if row["holds"])
    return {"set": str(found.path)} | found.meta | {"types_of_heads": dict(held), "reasons": dict(reasons(found))}


def reasons(found: TextSet) -> Counter[str]:
    """Why texts were left out, and how many for each reason."""
    return Counter(
        reason for reason in found.table("texts", columns=["reason"]).column(0).to_pylist() if reason is not None
    )


def page(found: TextSet) -> Group:
    """What a person wants to know first."""
    meta = found.meta
    lines: list[RenderableType] = [
        Text(""),
        Text(
            printable(
                f"{counted(meta['texts'], 'text')}, {counted(meta['tokens'], 'token')}, "
                f"{counted(len(found.heads), 'head')} of "
                f"{meta['model'].get('name')}"
            ),
            style="bold",
        ),
        Text(""),
        _types(found),
    ]
    why = reasons(found)
    if why:
        lines += [Text(""), Text(f"left out: {counted(sum(why.values()), 'text')}", style="yellow")]
        lines += [Text(printable(f"  {count:,} × {reason}")) for reason, count in why.most_common(_REASONS)]
        if len(why) > _REASONS:
            lines.append(Text(f"  and {counted(len(why) - _REASONS, 'more reason')}, in the table texts"))
    for warning, count in meta.get("warnings", {}).items():
        lines.append(Text(printable(f"warning, {count:,} × {warning}"), style="yellow"))
    checked = meta.get("self_check")
    if checked is not None:
        says = "agree" if checked["passed"] else "DO NOT agree"
        lines += [
            Text(""),
            Text(
                f"self-check: weights {says} with the model's own eager attention to {checked['max_abs_error']:.0e}",
                style="" if checked["passed"] else "bold red",
            ),
        ]
    lines += [Text(""), Text(printable(f"set: {found.path}")), Text("")]
    return Group(*lines)


def _types(found: TextSet) -> RenderableType:
    rows = found.table("types").to_pylist()
    table = lesson.new_table("type of head", "heads", "which, and in what share of texts")
    table.columns[2].justify = "left"
    for name in found.meta["types"]:
        own = [row for row in rows if row["type"] == name and row["holds"]]
        own.sort(key=lambda row: -row["texts_of_type"] / row["texts"])
        shown = ", ".join(
            f"{row['layer']}.{row['head']} ({row['texts_of_type'] / row['texts']:.0%})" for row in own[:_LISTED]
        )
        table.add_row(name, str(len(own)), shown)
    return table
