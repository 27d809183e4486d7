"""What findings from one run were found on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heedmap.heads.findings import About

if TYPE_CHECKING:
    from heedmap.runs.reader import Run


def about_run(
    run: Run,
    command: str,
    *,
    items: int,
    item: str,
    more: Mapping[str, str | int | float] | None = None,
    source: str | None = None,
) -> About:
    """Model and revision as the run has them; its text by length and hash, so that it can be told from another.

    `source` says where the text came from where the run itself is a passing one; otherwise the run's folder is named.
    """
    model, text = run.meta["model"], run.meta["text"]
    sha256 = str(text.get("sha256", ""))[:12]
    origin = source or f"run {run.path.name}"
    return About(
        model=str(model.get("name") or "unknown"),
        revision=model.get("revision"),
        data=f"{origin}: a text of {text.get('tokens', 0):,} tokens, sha256 {sha256 or 'unknown'}",
        items=items,
        seed=None,
        command=command,
        item=item,
        more=more or {},
    )
