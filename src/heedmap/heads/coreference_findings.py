"""What was found of coreference, as tables: classes of mentions, every head, and GAP by gender."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heedmap.heads.coreference import BASELINES, BLIND, HeadName, Resolved
from heedmap.heads.findings import About, Cell, Column, Findings
from heedmap.heads.gap import Counts, Example
from heedmap.heads.intervals import Bootstrap
from heedmap.heads.syntax_findings import interval

_SHARE = ".1%"
_COLUMNS = (
    Column("mentions", "string"),
    Column("earlier_same_word", "string", "same"),
    Column("items", "int64", listed=False, unit="mentions"),
    Column("items_odd", "int64", "scored", ",", "mentions"),
    Column("head", "string"),
    Column("accuracy", spec=_SHARE, unit="share of mentions"),
    Column("interval", "string", "95 %"),
    Column("accuracy_of_head_for_all", label="overall", spec=_SHARE, unit="share of mentions"),
    Column("nearest", spec=_SHARE, unit="share of mentions"),
    Column("same_word", label="match", spec=_SHARE, unit="share of mentions"),
    Column("same_word_or_nearest", label="either", spec=_SHARE, unit="share of mentions"),
    Column("first", spec=_SHARE, unit="share of mentions"),
    Column("low", listed=False, unit="share of mentions"),
    Column("high", listed=False, unit="share of mentions"),
    Column("accuracy_even", listed=False, unit="share of mentions"),
    Column("part", "string", listed=False),
    Column("layer", "int64", listed=False),
    Column("head_number", "int64", listed=False),
)
_HEAD_COLUMNS = (
    Column("mentions", "string"),
    Column("earlier_same_word", "string"),
    Column("part", "string"),
    Column("layer", "int64"),
    Column("head", "int64"),
    Column("accuracy", spec=_SHARE, unit="share of mentions"),
    Column("accuracy_even", spec=_SHARE, unit="share of mentions"),
    Column("accuracy_odd", spec=_SHARE, unit="share of mentions"),
)
_GAP_COLUMNS = (
    Column("answers_by", "string", "answers by"),
    Column("items_odd", "int64", "scored", ",", "examples"),
    Column("f1", label="F1", spec=_SHARE),
    Column("interval", "string", "95 %"),
    Column("f1_masculine", label="masculine", spec=_SHARE),
    Column("f1_feminine", label="feminine", spec=_SHARE),
    Column("bias", spec=".2f", unit="feminine F1 / masculine F1"),
    Column("precision", spec=_SHARE),
    Column("recall", spec=_SHARE),
    Column("low", listed=False),
    Column("high", listed=False),
    Column("f1_even", listed=False),
    Column("part", "string", listed=False),
    Column("layer", "int64", listed=False),
    Column("head", "int64", listed=False),
)
_GAP_HEAD_COLUMNS = (
    Column("part", "string"),
    Column("layer", "int64"),
    Column("head", "int64"),
    Column("f1", label="F1", spec=_SHARE),
    Column("f1_even", spec=_SHARE),
    Column("f1_odd", spec=_SHARE),
)
WITHOUT = "none"
"""The class of mentions without an earlier one of the same head word."""


def name_of(head: HeadName, heads: Sequence[HeadName]) -> str:
    """`5.11`, with the name of its part where the model has several."""
    several = len({part for part, _, _ in heads}) > 1
    return f"{head[0] + ' ' if several else ''}{head[1]}.{head[2]}"


def chain_findings(found: Sequence[Resolved], about: About) -> tuple[Findings, Findings]:
    """A row for each class of mentions, with any earlier ones and without the same head word; and every head."""
    overall = found[0].best()
    rows = [_row(one, overall) for one in found]
    notes = (
        "Head: best on the documents with even numbers, for each class; overall: the one that is best for all "
        "mentions. Scored on documents with odd numbers; 95 %: bootstrap over documents.",
        "Same, none: only mentions that have no earlier one with the same head word. Baselines: the nearest earlier "
        "mention; match, the nearest with the same head word; either, match where there is one, else nearest; first, "
        "the first mention of the window.",
        verdict(found),
    )
    title = f"Heads of {about.model} that find antecedents"
    every = [row for one in found for row in _heads(one)]
    return (
        Findings("coreference", title, _COLUMNS, rows, about, notes),
        Findings("coreference-heads", f"Accuracy of every head of {about.model}", _HEAD_COLUMNS, every, about),
    )


def _apart(one: Resolved) -> str:
    return WITHOUT if one.apart else "any"


def _row(one: Resolved, overall: int) -> dict[str, Cell]:
    best = one.best()
    part, layer, number = one.heads[best]
    accuracy, low, high = one.of_head(best)
    nearest, same, either, first = (one.of_baseline(name) for name in BASELINES)
    return {
        "mentions": one.name,
        "earlier_same_word": _apart(one),
        "items": one.items,
        "items_odd": one.odd_items,
        "head": name_of((part, layer, number), one.heads),
        "accuracy": accuracy,
        "interval": interval(low, high),
        "accuracy_of_head_for_all": one.of_head(overall)[0],
        "nearest": nearest,
        "same_word": same,
        "same_word_or_nearest": either,
        "first": first,
        "low": low,
        "high": high,
        "accuracy_even": float(one.accuracy("even")[best]),
        "part": part,
        "layer": layer,
        "head_number": number,
    }


def _heads(one: Resolved) -> list[dict[str, Cell]]:
    tables = {"accuracy": one.accuracy(), "accuracy_even": one.accuracy("even"), "accuracy_odd": one.accuracy("odd")}
    return [
        {"mentions": one.name, "earlier_same_word": _apart(one), "part": part, "layer": layer, "head": head}
        | {name: float(values[index]) for name, values in tables.items()}
        for index, (part, layer, head) in enumerate(one.heads)
    ]


def verdict(found: Sequence[Resolved]) -> str:
    """Whether the head that is best for all mentions does more than to find the same word, in words."""
    every, apart = found[0], found[1]
    head = every.best()
    name = name_of(every.heads[head], every.heads)
    if not apart.odd_items:
        return f"Head {name}: every mention has an earlier one with the same head word, so that nothing else is asked."
    judged = "so it does more" if _above_blind(apart, head) else "so it is not shown to do more"
    said = (
        f"Head {name}, the best for all mentions: where no earlier mention has the same head word ({apart.odd_items:,} "
        f"mentions) it is right in {apart.of_head(head)[0]:.1%}, {_blind(apart)}; {judged} than to find the same word."
    )
    better = []
    for one in found[2:]:
        if one.apart and _above_blind(one, best := one.best()):
            right = f"{one.of_head(best)[0]:.1%}"
            better.append(f"{one.name} (head {name_of(one.heads[best], one.heads)}, {right}; {_blind(one)})")
    kinds = f"Kinds of mention whose best head does: {'; '.join(better)}." if better else "No kind of mention has one."
    return f"{said} {kinds}"


def _above_blind(one: Resolved, head: int) -> bool:
    """Whether the interval of the difference to each baseline that looks at no word lies above 0."""
    return bool(one.odd_items) and all(one.above(head, name)[1] > 0 for name in BLIND)


def _blind(one: Resolved) -> str:
    return ", ".join(f"the {name} mention {one.of_baseline(name):.1%}" for name in BLIND)


def gap_findings(
    examples: Sequence[Example], answers: np.ndarray, heads: Sequence[HeadName], about: About, seed: int
) -> tuple[Findings, Findings]:
    """GAP's scores of the best head and of the nearest name, on examples with odd numbers; and of every head.

    Args:
        answers: of every head, bool `[examples, heads, 2]`.
    """
    numbers = np.arange(len(examples))
    odd, even = numbers % 2 == 1, numbers % 2 == 0
    counts = Counts.of(answers, examples)
    best = int(np.nan_to_num(counts.f1(even), nan=-1).argmax())
    nearest = Counts.of(np.array([example.nearest for example in examples], dtype=bool).reshape(-1, 1, 2), examples)
    gender = np.array([example.gender for example in examples])
    bootstrap = Bootstrap.of(int(odd.sum()), seed)
    rows = []
    for name, own, index, head in (
        (f"head {name_of(heads[best], heads)}", counts, best, heads[best]),
        ("nearest name", nearest, 0, None),
    ):
        low, high = bootstrap.interval(*(part[:, index].astype(float) for part in own.parts(odd)))
        masculine, feminine = (float(own.f1(odd & (gender == one))[index]) for one in ("masculine", "feminine"))
        rows.append({
            "answers_by": name,
            "items_odd": int(odd.sum()),
            "f1": float(own.f1(odd)[index]),
            "interval": interval(low, high),
            "f1_masculine": masculine,
            "f1_feminine": feminine,
            "bias": feminine / masculine if masculine > 0 else float("nan"),
            "precision": float(own.precision(odd)[index]),
            "recall": float(own.recall(odd)[index]),
            "low": low,
            "high": high,
            "f1_even": float(own.f1(even)[index]),
            "part": None if head is None else head[0],
            "layer": None if head is None else head[1],
            "head": None if head is None else head[2],
        })  # fmt: skip
    notes = (
        "Scores as GAP's own scorer has them. The head is the best on examples with even numbers; scored on those with "
        "odd ones; 95 %: bootstrap over examples. A head always names A or B, and so is wrong where neither is meant.",
        "Head-word match answers nothing here: no name is the pronoun's own word.",
    )
    f1 = {"f1": counts.f1(odd | even), "f1_even": counts.f1(even), "f1_odd": counts.f1(odd)}
    every: list[dict[str, Cell]] = [
        {"part": part, "layer": layer, "head": head} | {name: float(values[index]) for name, values in f1.items()}
        for index, (part, layer, head) in enumerate(heads)
    ]
    return (
        Findings("gap", f"GAP with the heads of {about.model}", _GAP_COLUMNS, rows, about, notes),
        Findings("gap-heads", f"GAP's F1 of every head of {about.model}", _GAP_HEAD_COLUMNS, every, about),
    )
