"""The tables of heads that attend alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heedmap.heads.about import about_run
from heedmap.heads.evidence import type_heads
from heedmap.heads.findings import Column, Findings
from heedmap.heads.similar import Distances

if TYPE_CHECKING:
    from heedmap.runs.reader import Run

_LISTED = 8


def similar_findings(
    run: Run,
    found: Distances,
    places: np.ndarray,
    share: float,
    of: np.ndarray,
    silhouette: float,
    command: str,
) -> tuple[Findings, Findings, Findings]:
    """Groups, heads, and every two heads."""
    layer = np.array([number for _, number, _ in found.heads])
    upper = np.triu_indices(len(found.heads), 1)
    near = found.matrix[upper]
    same = layer[upper[0]] == layer[upper[1]]
    about = about_run(
        run, command, items=found.rows, item=f"rows of {found.of_rows:,}",
        more={"heads": len(found.heads), "part": found.part, "plane": f"{share:.1%} of the spread"},
    )  # fmt: skip
    notes = ["Distance: mean over rows of the Jensen–Shannon divergence, nats; 0 is the same, ln 2 = 0.693 nothing in "
             f"common. Groups: Ward's linkage, silhouette {silhouette:.2f}."]  # fmt: skip
    if same.any() and not same.all():
        notes.append(
            f"Two heads of one layer are {near[same].mean():.3f} apart on average, of different layers "
            f"{near[~same].mean():.3f}."
        )
    names = [f"{number}.{head}" for _, number, head in found.heads]
    kinds = _kinds(run, found)
    nats: dict[str, Any] = {"spec": ".3f", "unit": "nats"}
    rows = []
    for number in range(int(of.max()) + 1):
        members = np.flatnonzero(of == number)
        within = found.matrix[np.ix_(members, members)]
        pairs = len(members) * (len(members) - 1)
        central = members[np.argsort(within.sum(1), kind="stable")]
        listed = " ".join(names[index] for index in central[:_LISTED])
        rows.append(
            {"group": number + 1, "heads": len(members), "layers": _span(layer[members]),
             "within": float(within.sum() / pairs) if pairs else None, "type": _shared([kinds[m] for m in members]),
             "members": listed + (" …" if len(members) > _LISTED else "")}
        )  # fmt: skip
    groups = Findings(
        "similar_groups", "Heads that attend alike",
        (Column("group", "int64"), Column("heads", "int64"), Column("layers", "string"),
         Column("within", label="apart", **nats), Column("type", "string", label="mostly"),
         Column("members", "string", label="most central first")),
        rows, about, tuple(notes),
    )  # fmt: skip
    apart = found.matrix + np.diag(np.full(len(names), np.inf))
    closest = apart.argmin(1)
    heads = Findings(
        "similar_heads", "Each head's group, place and nearest head",
        (Column("part", "string"), Column("layer", "int64"), Column("head", "int64"), Column("group", "int64"),
         Column("x", **nats), Column("y", **nats), Column("nearest", "string"), Column("distance", **nats),
         Column("types", "string")),
        [{"part": part, "layer": at, "head": head, "group": int(of[index]) + 1, "x": float(places[index, 0]),
          "y": float(places[index, 1]), "nearest": names[closest[index]],
          "distance": float(apart[index, closest[index]]), "types": " ".join(kinds[index])}
         for index, (part, at, head) in enumerate(found.heads)],
        about, tuple(notes),
    )  # fmt: skip
    pairs = Findings(
        "similar_pairs", "The distance between every two heads",
        (Column("head_a", "string"), Column("head_b", "string"), Column("distance", **nats)),
        [{"head_a": names[a], "head_b": names[b], "distance": float(found.matrix[a, b])}
         for a, b in zip(*upper, strict=True)],
        about, tuple(notes),
    )  # fmt: skip
    return groups, heads, pairs


def _kinds(run: Run, found: Distances) -> list[tuple[str, ...]]:
    """The types of each head, as `heedmap heads` gives them."""
    types = {(head.part, head.layer, head.head): head.types for head in type_heads(run).heads}
    return [types[key] for key in found.heads]


def _shared(kinds: list[tuple[str, ...]]) -> str:
    """The types that most heads of a group have, with how many."""
    counts: dict[str, int] = {}
    for own in kinds:
        for name in own:
            counts[name] = counts.get(name, 0) + 1
    most = [name for name, count in counts.items() if 2 * count > len(kinds)]
    return ", ".join(f"{name} {counts[name]}" for name in sorted(most, key=lambda name: -counts[name])[:2])


def _span(layers: np.ndarray) -> str:
    low, high = int(layers.min()), int(layers.max())
    return str(low) if low == high else f"{low}–{high}"
