"""The tables of heads that fetch a needle."""

from __future__ import annotations

from typing import Any

import numpy as np

from heedmap.experiments.intervals import student
from heedmap.experiments.retrieval import Retrieval
from heedmap.heads.findings import About, Column, Findings
from heedmap.heads.retrieval import ANSWERED, BAR, mean_scores


def head_findings(found: Retrieval, about: About, *, interrupted: bool) -> Findings:
    """Every head, highest mean score first."""
    scores = np.stack([trial.scores for trial in found.trials])
    means, when_answered = scores.mean(0), mean_scores(found.trials, answered=True)
    rows = []
    for index in np.argsort(-means, kind="stable").tolist():
        part, layer, head = found.heads[index]
        interval = student(scores[:, index])
        rows.append(
            {"part": part, "layer": layer, "head": head, "score": float(means[index]), "low": interval.low,
             "high": interval.high, "answered": None if when_answered is None else float(when_answered[index]),
             "active": float((scores[:, index] > 0).mean()), "retrieval": bool(means[index] > BAR)}
        )  # fmt: skip
    share: dict[str, Any] = {"spec": ".3f", "unit": "share of the needle"}
    several = len({part for part, _, _ in found.heads}) > 1
    columns = (
        Column("part", "string", listed=several), Column("layer", "int64"), Column("head", "int64"),
        Column("score", **share), Column("low", label="from", **share), Column("high", label="to", **share),
        Column("answered", label="when answered", **share), Column("active", spec=".0%", unit="share of questions"),
        Column("retrieval", "bool", label="> 0.1"),
    )  # fmt: skip
    count, answered = int((means > BAR).sum()), sum(trial.answered for trial in found.trials)
    notes = [
        f"{count} of {len(found.heads)} heads are retrieval heads (mean score above {BAR}).",
        f"The model answered {answered} of {len(found.trials)} questions (over {ANSWERED:.0%} of the answer's words).",
        "score: share of the needle's tokens produced while the head looked most at that token; from–to: 95 % interval "
        "over questions; active: questions in which it copied any.",
    ]
    if not answered:
        notes.insert(
            1, "It copied too little to say which heads fetch: a low score here is the model's, not the head's."
        )
    if interrupted:
        notes.append(f"Interrupted: {len(found.trials)} of {found.planned} questions.")
    return Findings("retrieval", "Heads by how much of the needle they fetched", columns, rows, about, tuple(notes))


def cell_findings(found: Retrieval, about: About) -> Findings:
    """Recall by length and depth."""
    rows = []
    for length, depth in dict.fromkeys((trial.length, trial.asked) for trial in found.trials):
        own = [trial for trial in found.trials if (trial.length, trial.asked) == (length, depth)]
        rows.append(
            {"length": length, "depth": depth, "needles": len(own), "answered": sum(trial.answered for trial in own),
             "recall": float(np.mean([trial.recall for trial in own])),
             "best": float(max(trial.scores.max() for trial in own))}
        )  # fmt: skip
    columns = (
        Column("length", "int64", spec=","), Column("depth", spec=".0%", unit="share"), Column("needles", "int64"),
        Column("answered", "int64"), Column("recall", spec=".2f", unit="share of the answer's words"),
        Column("best", label="best head", spec=".2f", unit="share of the needle"),
    )  # fmt: skip
    notes = ("recall: share of the answer's distinct words that the model said, the mean over needles.",)
    return Findings("retrieval_cells", "What the model answered", columns, rows, about, notes)


def answer_findings(found: Retrieval, about: About) -> Findings:
    """Every question with its answer."""
    rows = [
        {"length": trial.length, "depth": trial.asked, "stood_at": trial.depth, "prompt_tokens": trial.tokens,
         "needle_start": trial.start, "needle_stop": trial.stop, "needle": found.needles[trial.needle].needle,
         "question": found.needles[trial.needle].question, "said": trial.answer, "recall": trial.recall,
         "answered": trial.answered}
        for trial in found.trials
    ]  # fmt: skip
    kinds: dict[str, Any] = {"length": "int64", "depth": "float64", "stood_at": "float64", "prompt_tokens": "int64",
                             "needle_start": "int64", "needle_stop": "int64", "needle": "string", "question": "string",
                             "said": "string", "recall": "float64", "answered": "bool"}  # fmt: skip
    columns = tuple(Column(name, kind) for name, kind in kinds.items())
    return Findings("retrieval_answers", "Questions and answers", columns, rows, about)
