"""The most telling heads of a run: which look at the token before, at the first token, at everything, at one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

POSITIONAL = ("previous", "next", "self", "first", "separator")

KINDS = {
    "previous": "the token before",
    "next": "the token after",
    "self": "the token itself",
    "first": "the first token",
    "separator": "later special tokens",
    "broad": "many tokens at once",
    "sharp": "one other token",
}
"""Kind of head → what such a head looks at, in the order of a summary."""

NOTHING = 0.005
"""A smaller value would be shown as 0.00."""

UNITS = {kind: "nats" if kind == "broad" else "weight" for kind in KINDS}


@dataclass(frozen=True)
class TellingHead:
    """A head that stands out: what it does, which head it is, and how much (a mean weight, or an entropy in nats)."""

    kind: str
    part: str
    layer: int
    head: int
    value: float
    unit: str


def head_scores(run: Run) -> dict[str, np.ndarray]:
    """What each head does, as one number per kind and head: kind → float64 ``[heads]``, in the order of ``run.heads``.

    - ``previous``, ``next``: mean weight on the token before (after), over the rows that may see one.
    - ``self``: mean weight of a token on itself. ``first``: mean weight on the first token that is no padding. In a
      causal layer both leave out the first row, where they are trivially 1.
    - ``separator``: mean weight on special tokens other than the first, over the rows that may see one.
    - ``broad``: mean entropy in nats.
    - ``sharp``: mean of each row's largest weight.

    NaN where a kind has no meaning (distances in cross-attention, a text without separators); a kind is absent where
    the run lacks the statistic it comes from. Definitions follow Clark et al. 2019, section 3.
    """
    scores = {kind: np.full(len(run.heads), np.nan) for kind in POSITIONAL}
    special = np.flatnonzero(run.tokens_of().column("special").to_numpy(zero_copy_only=False))
    none = special[:0]
    has_distance, has_key = _has(run, "distance", "distance_profile"), _has(run, "key", "received")
    for index, (info, head) in enumerate(_heads(run)):
        causal = False
        if has_distance and not info.cross:
            near = _near(run, info, head)
            causal = near.causal
            scores["previous"][index] = near.mean(1)
            scores["next"][index] = near.mean(-1)
            scores["self"][index] = near.mean(0, less=_first_row(run, info, head) if causal else None)
        if has_key:
            own = _first_row(run, info, head) if causal else None
            on_text = info.key_sequence == "text" and not info.cross
            scores["first"][index], scores["separator"][index] = _anchors(
                run, info, head, special if on_text else none, own, causal
            )
    if not has_distance:
        scores = {kind: values for kind, values in scores.items() if kind in ("first", "separator")}
    if not has_key:
        scores = {kind: values for kind, values in scores.items() if kind in ("previous", "next", "self")}
    means = run.table("head")
    for kind, column in (("broad", "entropy"), ("sharp", "max_weight")):
        if column in means.column_names:
            scores[kind] = means.column(column).to_numpy(zero_copy_only=False).astype(np.float64)
    return scores


def telling_heads(
    run: Run, top: int = 3, scores: Mapping[str, np.ndarray] | None = None
) -> dict[str, list[TellingHead]]:
    """The ``top`` heads of each kind, highest first; kinds that no head of this run shows are absent.

    A mean weight counts where it is well beyond what attention spread evenly over the same keys would give
    (`beyond_even`): below that the heads of a model that was never trained would be as good.

    ``sharp`` lists only heads of which no other share (previous, next, self, first, separator) reaches half the mean of
    the largest weights: heads that look at one token for a reason that position does not explain.

    ``scores`` are those of ``head_scores``, if they are at hand.
    """
    scores = dict(head_scores(run) if scores is None else scores)
    if "sharp" in scores:
        explained = np.max([np.nan_to_num(scores[kind]) for kind in POSITIONAL if kind in scores], axis=0, initial=0.0)
        scores["sharp"] = np.where(2 * explained < scores["sharp"], scores["sharp"], np.nan)
    found: dict[str, list[TellingHead]] = {}
    bar = np.maximum(beyond_even(_even(run)), NOTHING)
    for kind in KINDS:
        values = scores.get(kind, np.array([]))
        order = np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")[:top]
        best = [
            TellingHead(kind, *run.heads[index], value=float(values[index]), unit=UNITS[kind])
            for index in order
            if np.isfinite(values[index]) and values[index] >= (NOTHING if UNITS[kind] == "nats" else bar[index])
        ]
        if best:
            found[kind] = best
    return found


def beyond_even(share: np.ndarray) -> np.ndarray:
    """From which weight on a share tells something, given what attention spread evenly would give: half as much again,
    but where there are few keys no more than half of the way to 1."""
    return np.minimum(1.5 * share, (1 + share) / 2)


def _even(run: Run) -> np.ndarray:
    """The mean weight that even attention gives to a key, over rows that may see two or more, for each head."""
    return np.concatenate([np.full(len(info.heads), _even_share(run, info)) for info in run.layers])


def _even_share(run: Run, info: LayerInfo) -> float:
    """0 where the run cannot say."""
    where: dict[str, Any] = {"part": info.part, "layer": info.layer, "head": info.heads[0]}
    if not info.cross and _has(run, "distance", "distance_pairs"):
        table = run.table("distance", **where, columns=["distance", "distance_pairs"])
        distance, pairs = (column.to_numpy().astype(np.int64) for column in table.columns)
        if (
            len(distance) and distance.min() >= 0
        ):  # rows look back without a gap: of so many keys at least, so many rows
            most = np.bincount(distance, weights=pairs)
            rows = (most - np.append(most[1:], 0))[1:]
            return float((rows / np.arange(2, len(most) + 1)).sum() / max(rows.sum(), 1))
    if not _has(run, "key", "rows_that_may_see"):
        return 0.0
    seen = run.table("key", **where, columns=["rows_that_may_see"]).column(0).to_numpy().sum(dtype=np.int64)
    counts = run.table("head", **where, columns=["rows", "rows_empty"])
    return float((counts.column("rows")[0].as_py() - counts.column("rows_empty")[0].as_py()) / max(int(seen), 1))


def head_to_show(telling: dict[str, list[TellingHead]]) -> tuple[str, int, int] | None:
    """The one head to draw when nobody has chosen: the sharpest that position does not explain."""
    for kind in ("sharp", "previous", "first", "next", "broad", "self", "separator"):
        if kind in telling:
            best = telling[kind][0]
            return best.part, best.layer, best.head
    return None


@dataclass(frozen=True)
class _Near:
    """Sums of weights at small distances, and the numbers of pairs they are over; whether no row looks ahead."""

    sums: dict[int, tuple[float, int]]
    causal: bool

    def mean(self, distance: int, less: float | None = None) -> float:
        """Mean weight at a distance; ``less`` is the weight of one row that is left out."""
        total, pairs = self.sums.get(distance, (0.0, 0))
        if less is not None:
            total, pairs = total - less, pairs - 1
        return total / pairs if pairs > 0 else float("nan")


def _near(run: Run, info: LayerInfo, head: int) -> _Near:
    table = run.table(
        "distance",
        part=info.part,
        layer=info.layer,
        head=head,
        columns=["distance", "distance_profile", "distance_pairs"],
    )
    distance, profile, pairs = (column.to_numpy() for column in table.columns)
    at = {d: np.flatnonzero(distance == d) for d in (-1, 0, 1)}
    sums = {d: (float(profile[i[0]]), int(pairs[i[0]])) for d, i in at.items() if len(i)}
    return _Near(sums, causal=len(distance) > 0 and int(distance.min()) >= 0)


def _anchors(
    run: Run, info: LayerInfo, head: int, special: np.ndarray, own: float | None, causal: bool
) -> tuple[float, float]:
    """Mean weight on the first token, and on later special tokens."""
    table = run.table(
        "key", part=info.part, layer=info.layer, head=head, columns=["position", "received", "rows_that_may_see"]
    )
    position, received, seen_by = (column.to_numpy() for column in table.columns)
    seen = np.flatnonzero(seen_by > 0)
    if not len(seen):
        return float("nan"), float("nan")
    total, rows = float(received[seen[0]]), int(seen_by[seen[0]])
    if own is not None:
        total, rows = total - own, rows - 1
    first = total / rows if rows > 0 else float("nan")
    later = seen[1:][np.isin(position[seen[1:]], special)]
    if not len(later):
        return first, float("nan")
    return first, float(received[later].sum()) / rows_seeing_any(
        position[later], seen_by[later], causal, int(seen_by.max())
    )


def rows_seeing_any(position: np.ndarray, seen_by: np.ndarray, causal: bool, rows: int) -> int:
    """How many rows may see at least one of these keys; in a causal layer key k is seen by the rows k, k + 1, …"""
    if not causal:
        return min(rows, int(seen_by.sum()))
    order = np.argsort(position, kind="stable")
    start = position[order].astype(np.int64)
    stop = start + seen_by[order].astype(np.int64)
    covered = np.maximum.accumulate(np.append(-1, stop))[:-1]
    return int(np.maximum(0, stop - np.maximum(start, covered)).sum())


def _first_row(run: Run, info: LayerInfo, head: int) -> float | None:
    """What the first row of a causal layer puts on the first token, the only one that it may see.

    None where the layer has no such row, because its first query stands later in the text.
    """
    if info.query_offset > info.key_offset:
        return None
    if info.sinks is None:
        return 1.0
    columns = [c for c in ("row_mass", "max_weight") if _has(run, "query", c)][:1]
    if not columns:
        return 1.0
    table = run.table("query", part=info.part, layer=info.layer, head=head, columns=columns)
    return float(table.column(0)[0].as_py())


def _heads(run: Run) -> Iterator[tuple[LayerInfo, int]]:
    for info in run.layers:
        for head in info.heads:
            yield info, head


def _has(run: Run, table: str, column: str) -> bool:
    """Whether the run measured this column for any head."""
    if f"{table}.parquet" not in run.meta["files"]:
        return False
    part, layer, head = run.heads[0]
    return column in run.table(table, part=part, layer=layer, head=head).column_names
