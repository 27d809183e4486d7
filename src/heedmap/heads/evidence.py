"""What a run says for each type of head: one number a head, from its tables, or exactly from its query and key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heedmap.heads.telling import head_scores, rows_seeing_any
from heedmap.heads.types import FEWEST_ROWS, NEAR, SHORT, TYPES, Typing, judge
from heedmap.runs.formula import allowed, why_opaque
from heedmap.runs.kinds import kinds_of

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

LONGEST = 1024
"""Tokens up to which copies are looked up in the exact weights where the run has not measured them."""

_SHARES = ("previous", "next", "self", "first", "separator")
_COPIES = {"duplicate": 0, "induction": 1}


def type_heads(run: Run, scores: Mapping[str, np.ndarray] | None = None) -> Typing:
    """The types of every head of a run, by the bars in `heedmap.heads.types`.

    A type that the run cannot tell is in `unjudged` with the reason: entropies compare in texts of at most 128 tokens,
    copies need rows that have an earlier copy, distances have no meaning in cross-attention. ``scores`` are those of
    ``head_scores``, if they are at hand.
    """
    scores = head_scores(run) if scores is None else scores
    values = {name: scores[name] for name in _SHARES if name in scores}
    why: dict[str, str] = {}
    tokens = run.tokens_of().num_rows
    most = math.log(max(tokens, 1))
    if tokens > SHORT:
        why["broad"] = f"entropies compare in texts of at most {SHORT} tokens; this one has {tokens:,}"
    elif most <= TYPES["broad"].bar:
        why["broad"] = f"entropy over {tokens} tokens cannot exceed ln {tokens} = {most:.1f} nats"
    elif "broad" in scores:
        values["broad"] = scores["broad"]
    sinks = _by_key(run, values, why)
    _by_distance(run, values, why)
    _by_argmax(run, values, why)
    _by_copies(run, values, why)
    for name in _SHARES:
        if name not in values:
            why[name] = "the run lacks the statistic; look with --statistics default"
    return judge(run.heads, values, why, sinks)


def _by_key(run: Run, values: dict[str, np.ndarray], why: dict[str, str]) -> list[int | None] | None:
    """Sinks and punctuation from what each key receives; returns the position of each head's sink."""
    if "received" not in run.meta["statistics"]:
        why["sink"] = why["punctuation"] = "the run lacks what keys receive; look with --statistics default"
        return None
    columns = [run.tokens_of().column(name).to_pylist() for name in ("special", "segment", "start", "end")]
    kinds = kinds_of(*columns, texts=[run.text, run.text_pair or ""])
    marks = np.flatnonzero(kinds["punctuation"])
    if not len(marks):
        why["punctuation"] = "this text has no punctuation"
    values["sink"], values["punctuation"] = (np.full(len(run.heads), np.nan) for _ in range(2))
    positions: list[int | None] = []
    for index, (part, layer, head) in enumerate(run.heads):
        info = run.layer(layer, part)
        table = run.table(
            "key", part=part, layer=layer, head=head, columns=["position", "received", "rows_that_may_see"]
        )
        position, received, seen_by = (column.to_numpy() for column in table.columns)
        enough = np.flatnonzero((2 * seen_by >= seen_by.max(initial=0)) & (seen_by > 0))
        if not len(enough):
            positions.append(None)
            continue
        means = received[enough] / seen_by[enough]
        values["sink"][index] = means.max()
        positions.append(int(position[enough[means.argmax()]]))
        at = np.flatnonzero(np.isin(position, marks) & (seen_by > 0))
        if len(at) and not info.cross and info.key_sequence == "text":
            rows = rows_seeing_any(position[at], seen_by[at], _is_causal(info), int(seen_by.max()))
            values["punctuation"][index] = received[at].sum() / rows
    return positions


def _by_distance(run: Run, values: dict[str, np.ndarray], why: dict[str, str]) -> None:
    if "distance_profile" not in run.meta["statistics"]:
        why["local"] = "the run lacks distances; look with --statistics default"
        return
    if run.tokens_of().num_rows <= 4 * (2 * NEAR + 1):
        why["local"] = (
            f"in a text of {run.tokens_of().num_rows} tokens all are near; it takes over {4 * (2 * NEAR + 1)}"
        )
        return
    values["local"] = np.full(len(run.heads), np.nan)
    rows = _rows(run)
    for index, (part, layer, head) in enumerate(run.heads):
        if run.layer(layer, part).cross:
            continue
        table = run.table("distance", part=part, layer=layer, head=head, columns=["distance", "distance_profile"])
        distance, profile = (column.to_numpy() for column in table.columns)
        if rows[index]:
            values["local"][index] = profile[np.abs(distance) <= NEAR].sum() / rows[index]


def _rows(run: Run) -> np.ndarray:
    """Rows of each head that count and may attend to something."""
    table = run.table("head", columns=["rows", "rows_empty"])
    return table.column("rows").to_numpy() - table.column("rows_empty").to_numpy()


def _by_argmax(run: Run, values: dict[str, np.ndarray], why: dict[str, str]) -> None:
    if "argmax" not in run.meta["statistics"]:
        why["positional"] = "the run lacks argmax; look with --statistics default"
        return
    values["positional"] = np.full(len(run.heads), np.nan)
    for index, (part, layer, head) in enumerate(run.heads):
        info = run.layer(layer, part)
        if info.cross:
            continue
        table = run.table("query", part=part, layer=layer, head=head, columns=["position", "argmax"])
        position, argmax = (column.to_numpy() for column in table.columns)
        seeing = argmax >= 0
        first, last = info.key_offset, info.key_offset + info.key_len - 1
        back = seeing & (position > first)
        ahead = seeing & (position < last)
        shares = [np.mean(argmax[back] == position[back] - 1) if back.any() else 0.0]
        if not _is_causal(info) and ahead.any():
            shares.append(np.mean(argmax[ahead] == position[ahead] + 1))
        if back.sum() >= 2:
            values["positional"][index] = max(shares)


def _by_copies(run: Run, values: dict[str, np.ndarray], why: dict[str, str]) -> None:
    """Copies within each text: a decoder's beside that of its encoder."""
    measured = set(run.meta["statistics"])
    own = {key: None if run.layer(key[1], key[0]).cross else run.layer(key[1], key[0]).query_sequence for key in
           run.heads}  # fmt: skip
    ids = {
        name: run.tokens_of(name).column("id").to_numpy() for name in dict.fromkeys(own.values()) if name is not None
    }
    for name, after in _COPIES.items():
        rows = {sequence: _rows_with_copy(tokens.tolist(), after) for sequence, tokens in ids.items()}
        if max(rows.values(), default=0) < FEWEST_ROWS:
            found = max(rows.values(), default=0)
            why[name] = f"tokens of this text with such an earlier copy: {found}; it takes {FEWEST_ROWS}"
            continue
        if name in measured:
            column = run.table("head", columns=[name]).column(name)
            found = column.to_numpy(zero_copy_only=False).astype(np.float64)
        elif max(map(len, ids.values())) <= LONGEST and all(info.inputs for info in run.layers):
            found = _copies(run, ids, after)
        else:
            why[name] = f"not measured; look with --statistics default,{','.join(_COPIES)}"
            continue
        told = [sequence is not None and rows[sequence] >= FEWEST_ROWS for sequence in own.values()]
        values[name] = np.where(told, found, np.nan)


def _matches(ids: np.ndarray, after: int) -> np.ndarray:
    """Whether a key stands `after` places behind an earlier copy of the row's token, bool `[tokens, tokens]`."""
    same = ids[:, None] == ids[None, :]
    moved = np.zeros_like(same)
    moved[:, after:] = same[:, : same.shape[1] - after]
    return np.tril(moved, -1)


def _rows_with_copy(ids: list[int], after: int) -> int:
    """Tokens that have an earlier copy at least `after` + 1 places back."""
    first: dict[int, int] = {}
    rows = 0
    for position, token in enumerate(ids):
        rows += token in first and first[token] + after < position
        first.setdefault(token, position)
    return rows


def _copies(run: Run, ids: Mapping[str, np.ndarray], after: int) -> np.ndarray:
    """Mean weight on copies (or what followed them) from the exact weights; NaN where the formula is not described."""
    matches = {sequence: _matches(tokens, after) for sequence, tokens in ids.items()}
    found = np.full(len(run.heads), np.nan)
    for index, (part, layer, head) in enumerate(run.heads):
        info = run.layer(layer, part)
        if info.cross or info.unknown_terms or why_opaque(info.mask) is not None:
            continue
        rows = np.arange(info.query_len) + info.query_offset
        keys = np.arange(info.key_len) + info.key_offset
        own = matches[info.query_sequence][np.ix_(rows, keys)] & allowed(info.mask, rows, keys)
        counted = own.any(1)
        weights = run.weights(layer, head, part=part).astype(np.float64)
        found[index] = np.nanmean((weights * own).sum(1)[counted]) if counted.any() else np.nan
    return found


def _is_causal(info: LayerInfo) -> bool:
    """Whether no row looks ahead, by the mask's description."""
    return hides_ahead(info.mask)


def hides_ahead(mask: Mapping[str, Any]) -> bool:
    """Whether a mask's description says that no row looks ahead."""
    kind, parts = mask["kind"], mask.get("of", ())
    if kind == "causal":
        return True
    if kind == "sliding_window":
        return not mask.get("both_sides", False)
    return any(map(hides_ahead, parts)) if kind == "and" else bool(parts) and all(map(hides_ahead, parts))
