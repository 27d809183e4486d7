"""Attention sinks: the weight and the score that the first tokens of a text get from every head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heedmap.errors import InputError, RunError
from heedmap.heads.strips import check_exact, layers_of
from heedmap.runs.formula import why_opaque

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

WHERE = "sinks"
FIRST = 4
"""First tokens that are looked at: streaming-llm keeps four."""
THRESHOLD = 0.3
"""α above which a head sinks on a token (Gu et al. 2024)."""


@dataclass(frozen=True)
class Sinks:
    """What the first tokens of a text get.

    Attributes:
        part: whose layers.
        heads: (part, layer, head) of each head.
        positions: text positions of the first tokens.
        labels: their texts.
        weight: α, float64 `[heads, first tokens]`: the mean weight on a token over the rows that may see it; NaN where
            none may.
        score: the mean score (scaled, softcapped, before the softmax) over the same rows; NaN where the run cannot
            tell.
        rows: how many rows may see each token, int64 `[heads, first tokens]`.
        why_no_score: why scores are missing; "" where they are there.
    """

    part: str
    heads: list[tuple[str, int, int]]
    positions: list[int]
    labels: list[str]
    weight: np.ndarray
    score: np.ndarray
    rows: np.ndarray
    why_no_score: str

    @property
    def largest(self) -> np.ndarray:
        """The largest α among the first tokens, `[heads]`."""
        return np.nan_to_num(self.weight).max(1)

    def rate(self, threshold: float = THRESHOLD) -> np.ndarray:
        """Share of heads with α above a threshold, for each of the first tokens, `[first tokens]`."""
        return (np.nan_to_num(self.weight) > threshold).mean(0)

    def rate_of_any(self, threshold: float = THRESHOLD) -> float:
        """Share of heads that sink on any of the first tokens."""
        return float((self.largest > threshold).mean())

    def by_layer(self, values: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Layers, and the mean over their heads of `weight` or `score`, `[layers, first tokens]`."""
        layers = list(dict.fromkeys(layer for _, layer, _ in self.heads))
        number = np.array([layer for _, layer, _ in self.heads])
        return layers, np.stack([values[number == layer].mean(0) for layer in layers])


def find_sinks(run: Run, *, first: int = FIRST, part: str | None = None) -> Sinks:
    """The mean weight and score of every head on the first tokens, exactly, from a run alone.

        α_k = Σ_i w_ik / |{i : i may see k}|

    Weights come from what each key received (`received`, `rows_that_may_see`), or where the run did not measure it from
    its query and key, as scores do. A token's own row counts too: in a causal model, whose first row sees nothing else,
    α of the first token has a 1 among its terms.

    Args:
        run: the run.
        first: how many tokens, from the first one that a row may see.
        part: which stack of layers, where there are several.

    Raises:
        InputError: more tokens than the text has, or a part that is not there.
        RunError: a run with neither `received` nor its inputs.
        UnsupportedError: a run without `received` whose formula could not be described.

    Source: Xiao et al. 2023 (streaming-llm; its figure 2 shows scores, not weights); Gu et al. 2024, §3 (α, and the
    share of heads above 0.3).
    """
    layers = layers_of(run, part, WHERE)
    measured = "received" in run.meta["statistics"]
    if not measured:
        check_exact(run, layers, WHERE)
    start = _first_seen(run, layers[0]) if measured else layers[0].key_offset
    count = layers[0].key_offset + layers[0].key_len - start
    if not 1 <= first <= count:
        raise InputError(WHERE, expected=f"from 1 to {count} first tokens of this text", got=f"{first}")
    positions = np.arange(start, start + first)
    heads = [(info.part, info.layer, head) for info in layers for head in info.heads]
    weight, score = np.full((len(heads), first), np.nan), np.full((len(heads), first), np.nan)
    rows = np.zeros((len(heads), first), dtype=np.int64)
    index, why = 0, ""
    for info in layers:
        lack = _lack(info)
        why = why or lack
        if info.key_offset != layers[0].key_offset or info.key_len != layers[0].key_len:
            raise InputError(WHERE, expected="layers over the same tokens", got=f"others in layer {info.layer}")
        for head in info.heads:
            if measured:
                weight[index], rows[index] = _received(run, info, head, positions)
            if not lack:
                scores = run.scores(info.layer, head, None, positions, part=info.part)
                seen = np.isfinite(scores)  # −∞ where the mask hides, NaN in rows of padding
                score[index] = _mean(scores, seen)
                if not measured:
                    rows[index] = seen.sum(0)
                    weight[index] = _mean(run.weights(info.layer, head, None, positions, part=info.part), seen)
            index += 1
    texts = run.tokens_of(layers[0].key_sequence).column("text").to_pylist()
    labels = [texts[position] for position in positions]
    return Sinks(layers[0].part, heads, positions.tolist(), labels, weight, score, rows, why)


def _lack(info: LayerInfo) -> str:
    """Why a layer's scores cannot be had, or ""."""
    if not info.inputs:
        return "the run was written without its inputs"
    return why_opaque(info.mask) or ", ".join(info.unknown_terms)


def _first_seen(run: Run, info: LayerInfo) -> int:
    """Position of the first token that a row may see: none of padding."""
    columns = ["position", "rows_that_may_see"]
    table = run.table("key", part=info.part, layer=info.layer, head=info.heads[0], columns=columns)
    position, rows = (column.to_numpy() for column in table.columns)
    if not rows.any():
        raise RunError(WHERE, expected="a token that some row may see", got=f"none in {info.part} layer {info.layer}")
    return int(position[rows > 0][0])


def _received(run: Run, info: LayerInfo, head: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """α of these tokens, and how many rows may see each."""
    columns = ["position", "received", "rows_that_may_see"]
    table = run.table("key", part=info.part, layer=info.layer, head=head, columns=columns)
    position, received, rows = (column.to_numpy() for column in table.columns)
    at = np.searchsorted(position, positions)
    counts = rows[at].astype(np.int64)
    means = np.divide(received[at], counts, out=np.full(len(positions), np.nan), where=counts > 0)
    return means, counts


def _mean(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The mean of each column over the rows that count, in float64; NaN where none does."""
    total, count = np.where(counted, values, 0).sum(0, dtype=np.float64), counted.sum(0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
