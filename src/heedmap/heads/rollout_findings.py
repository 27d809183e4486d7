"""The tables of a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heedmap.heads.about import about_run
from heedmap.heads.findings import Column, Findings
from heedmap.heads.rollout import Rollout

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


def rollout_findings(run: Run, found: Rollout, unit: str, command: str) -> tuple[Findings, Findings]:
    """Contributions, largest first; and those after each number of layers."""
    about = about_run(
        run, command, items=len(found.contributions), item=f"{unit}s",
        more={"token": f"{found.token} ({found.labels[found.token]})", "residual": f"{found.residual:g}"},
    )  # fmt: skip
    number, text = Column("position", "int64", label=unit, spec="d"), Column("text", "string")
    share = Column("contribution", label="contributes", spec=".2%", unit="share")
    order = sorted(range(len(found.contributions)), key=lambda index: (-found.contributions[index], index))
    ranked = Findings(
        "rollout",
        f"What reaches {unit} {found.token}, “{found.labels[found.token]}”, through {len(found.layers)} layers",
        (number, text, share),
        [{"position": at, "text": found.labels[at], "contribution": float(found.contributions[at])} for at in order],
        about,
        _notes(found),
    )
    rows = [
        {"depth": depth, "position": at, "contribution": float(value)}
        for depth, line_of in enumerate(found.by_depth)
        for at, value in enumerate(line_of)
    ]
    depths = Findings(
        "rollout_depths",
        f"What reaches {unit} {found.token} after each number of layers",
        (Column("depth", "int64", label="layers", spec="d"), number, share),
        rows,
        about,
    )
    return ranked, depths


def _notes(found: Rollout) -> tuple[str, ...]:
    notes = ["Contributions sum to 100 %. They count attention and the residual stream alone: no values, no MLPs."]
    first = float(found.contributions[0])
    if first > 0.5 and found.token != 0:
        notes.append(
            f"{first:.1%} come from the first one: where heads rest their attention on it, each layer adds to that. "
            "The contributions after fewer layers (--out, --json, --png) tell more."
        )
    return tuple(notes)
