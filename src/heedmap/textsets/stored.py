"""Ordinary runs of the texts of a set that serve as examples most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

from heedmap.capture.look import look
from heedmap.runs.manifest import is_run
from heedmap.sets.reader import TextSet
from heedmap.sets.schema import RUNS
from heedmap.textsets.settings import Settings
from heedmap.textsets.sources import Texts


def examples(found: TextSet, keep: int) -> list[int]:
    """The texts that stand most often in the tables of tops and deciles, the earlier ones first among equals."""
    seen: Counter[int] = Counter()
    for table in ("tops", "deciles"):
        seen.update(found.table(table, columns=["text"]).column(0).to_pylist())
    return sorted(sorted(seen), key=lambda text: -seen[text])[:keep]


def store(
    found: TextSet,
    source: Texts,
    keep: int,
    model: Any,
    tokenizer: Any,
    settings: Settings,
    tell: Callable[[int], None],
) -> None:
    """Look at these texts, each into `runs/text-N` of the set; those that stand there already are kept."""
    wanted = set(examples(found, keep))
    missing = {text for text in wanted if not is_run(found.path / RUNS / f"text-{text}")}
    tell(len(wanted) - len(missing))
    if not missing:
        return
    from heedmap.capture.models import resolve

    loaded = resolve(model, tokenizer)
    for number, record in zip(count(), source, strict=False):
        if number in missing and record.text is not None:
            (found.path / RUNS).mkdir(exist_ok=True)
            look(
                record.text,
                loaded.model,
                loaded.tokenizer,
                out=found.path / RUNS / f"text-{number}",
                layers=settings.layers,
                heads=settings.heads,
                statistics=("default", *settings.statistics),
                max_tokens=settings.max_tokens,
            )
            missing.remove(number)
            tell(len(wanted) - len(missing))
        if not missing:
            break
