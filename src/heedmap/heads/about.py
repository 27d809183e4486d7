"""What findings from one run were found on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heedmap.heads.findings import About

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


def about_run(
    run: Run, command: str, *, items: int, item: str, more: Mapping[str, str | int | float] | None = None
) -> About:
    """Model and revision as the run has them; its text by length and hash, so that it can be told from another."""
    model, text = run.meta["model"], run.meta["text"]
    sha256 = str(text.get("sha256", ""))[:12]
    return About(
        model=str(model.get("name") or "unknown"),
        revision=model.get("revision"),
        data=f"run {run.path.name}: a text of {text.get('tokens', 0):,} tokens, sha256 {sha256 or 'unknown'}",
        items=items,
        seed=None,
        command=command,
        item=item,
        more=more or {},
    )
