"""The tables of heads that copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from heedmap.experiments.copying import Copying, Study, change, most_changed
from heedmap.experiments.intervals import student
from heedmap.heads.findings import About, Column, Findings

_KINDS = ("induction", "duplicate", "previous", "first")


def about_copying(study: Study, intact: Copying, command: str) -> About:
    sizes = ", ".join(str(length) for length in intact.lengths)
    return About(
        model=study.model, revision=study.revision,
        data=f"random tokens twice over: {sizes} of one half, {intact.draws} draws of each",
        items=len(intact.lengths) * intact.draws, item="sequences", seed=intact.seed, command=command,
        more={"heads": len(intact.heads)},
    )  # fmt: skip


def score_findings(intact: Copying, about: About, why_no_loss: str) -> Findings:
    """Every head, highest induction score first."""
    several = len({part for part, _, _ in intact.heads}) > 1
    weight: dict[str, Any] = {"spec": ".3f", "unit": "weight"}
    columns = [Column("part", "string", listed=several), Column("layer", "int64"), Column("head", "int64")]
    for kind in _KINDS:
        columns += [Column(kind, **weight), Column(f"{kind}_low", label="from", listed=kind == "induction", **weight),
                    Column(f"{kind}_high", label="to", listed=kind == "induction", **weight)]  # fmt: skip
    columns += [Column(f"induction_{length}", listed=False, **weight) for length in intact.lengths]
    rows = []
    for index in np.argsort(-intact.means("induction"), kind="stable").tolist():
        part, layer, head = intact.heads[index]
        row: dict[str, Any] = {"part": part, "layer": layer, "head": head}
        for kind in _KINDS:
            found = intact.score(kind, index)
            row |= {kind: found.mean, f"{kind}_low": found.low, f"{kind}_high": found.high}
        by_length = intact.values["induction"][:, :, index].mean(1)
        row |= {f"induction_{length}": float(value) for length, value in zip(intact.lengths, by_length, strict=True)}
        rows.append(row)
    notes = [f"Means over {len(intact.lengths)} lengths; from–to: 95 % interval over {intact.draws} draws."]
    if why_no_loss:
        notes.append(f"No loss: {why_no_loss}.")
    return Findings("induction", "Heads by their weight on what followed the earlier copy of a token", tuple(columns),
                    rows, about, tuple(notes))  # fmt: skip


def loss_findings(intact: Copying, about: About) -> Findings:
    """Loss of the first and of the second copy, by length."""
    halves = intact.halves()
    assert halves is not None
    nats: dict[str, Any] = {"spec": ".2f", "unit": "nats"}
    rows = []
    for length, table in zip(intact.lengths, halves, strict=True):
        drop = student(table[:, 0] - table[:, 1])
        rows.append({"length": length, "first": float(table[:, 0].mean()), "second": float(table[:, 1].mean()),
                     "drop": drop.mean, "drop_low": drop.low, "drop_high": drop.high})  # fmt: skip
    columns = (
        Column("length", "int64", label="tokens of a half", spec=","), Column("first", label="first copy", **nats),
        Column("second", label="second copy", **nats), Column("drop", label="loss drop", **nats),
        Column("drop_low", label="from", **nats), Column("drop_high", label="to", **nats),
    )  # fmt: skip
    notes = ("Mean loss of a token, nats, without the first of each copy; from–to: 95 % interval over draws.",)
    return Findings("induction_loss", "What the second copy costs less", columns, rows, about, notes)


def silenced_findings(study: Study, intact: Copying, about: About, *, interrupted: bool) -> Findings:
    """What changes with heads silent."""
    nats: dict[str, Any] = {"spec": "+.2f", "unit": "nats"}
    halves = intact.halves()
    whole = None if halves is None else float((halves[..., 0] - halves[..., 1]).mean())
    rows = []
    for one in study.silenced:
        row: dict[str, Any] = {"silent": one.name, "heads": " ".join(f"{a}.{b}" for a, b in one.heads),
                               "control": one.control}  # fmt: skip
        if whole is not None:
            cost, drop = change(intact, one.found)
            row |= {"cost": cost.mean, "cost_low": cost.low, "cost_high": cost.high, "drop": drop.mean,
                    "drop_low": drop.low, "drop_high": drop.high, "share": -drop.mean / whole}  # fmt: skip
        changed = most_changed(intact, one.found, one.heads)
        told = [f"{layer}.{head} {moved:+.2f}" for (_, layer, head), moved in changed]
        row |= {"changed": told[0] if told else "", "changed_too": ", ".join(told[1:])}
        rows.append(row)
    columns = [Column("silent", "string"), Column("heads", "string", listed=False),
               Column("control", "bool", listed=False)]  # fmt: skip
    if whole is not None:
        columns += [
            Column("cost", label="2nd copy", **nats), Column("cost_low", listed=False, **nats),
            Column("cost_high", listed=False, **nats), Column("drop", label="drop", **nats),
            Column("drop_low", label="from", **nats), Column("drop_high", label="to", **nats),
            Column("share", label="lost", spec=".0%", unit="share"),
        ]  # fmt: skip
    columns += [Column("changed", "string", label="changed"), Column("changed_too", "string", listed=False)]
    notes = ["Against the model as it is, on the same sequences. changed: the head whose induction score moved most."]
    if whole is not None:
        notes.append(
            "2nd copy: more loss there, nats; drop: change of the loss drop, nats, with its 95 % interval over draws; "
            "lost: the share of the loss drop that is gone."
        )
    control = next((one for one in study.silenced if one.control), None)
    if control is not None:
        named = ", ".join(f"{layer}.{head}" for layer, head in control.heads)
        notes.append(f"{control.name}: drawn from the heads below the bar of induction, to compare with ({named}).")
    if interrupted:
        notes.append(f"Interrupted: {len(study.silenced)} of {study.planned} sets of heads.")
    return Findings("induction_silenced", "With heads silent", tuple(columns), rows, about, tuple(notes))
