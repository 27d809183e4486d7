"""Attention rollout: how much of each input token reaches one token through all layers, if attention and the residual
stream were all there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heedmap.errors import InputError
from heedmap.heads.strips import check_exact, layers_of, mean_weights, strips

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

WHERE = "rollout"
RESIDUAL = 0.5
"""Abnar & Zuidema's share of the residual stream."""


@dataclass(frozen=True)
class Rollout:
    """What the input tokens contribute to one token.

    Attributes:
        part: whose layers.
        layers: their numbers, from the first.
        token: position of the token that is asked about.
        residual: share that each layer passes on unchanged.
        by_depth: float64 `[layers + 1, tokens]`: row d holds the contributions after d layers, row 0 the token itself;
            every row sums to 1 (but without a residual stream where a row reads nothing).
        labels: text of each token.
    """

    part: str
    layers: list[int]
    token: int
    residual: float
    by_depth: np.ndarray
    labels: list[str]

    @property
    def contributions(self) -> np.ndarray:
        """After all layers, `[tokens]`."""
        return self.by_depth[-1]

    def by_word(self, of_token: np.ndarray, labels: list[str]) -> Rollout:
        """The contributions of words: those of their tokens, summed (`run.words_of`)."""
        summed = np.zeros((len(self.by_depth), len(labels)))
        for depth, row in enumerate(self.by_depth):
            np.add.at(summed[depth], of_token[: len(row)], row)
        return Rollout(self.part, self.layers, int(of_token[self.token]), self.residual, summed, labels)


def rollout(
    run: Run,
    token: int,
    *,
    part: str | None = None,
    residual: float = RESIDUAL,
    progress: Callable[[int, int], None] | None = None,
) -> Rollout:
    """The contribution of every input token to one token, after each number of layers.

        Â_l = r·I + (1 − r)·A_l, its rows divided by their sum;   R_l = Â_l R_{l−1},  R_0 = I

    A_l is the mean over the heads of layer l, r the residual share. The row of one token is e_tᵀ Â_l … Â_1: a chain of
    row vectors times matrices, whose strips come from the stored query and key one after the other. The chains of all
    depths go through a layer together, so that each weight is computed once; memory is layers × tokens and one strip.

    Args:
        run: a run with its inputs, of all layers and heads.
        token: position of the token; negative ones count from the end.
        part: which layers, where the run has several stacks of them.
        residual: r, 0 ≤ r < 1; Abnar & Zuidema take 0.5.
        progress: called with layers done, and of how many.

    Raises:
        InputError: no such token, a share that is none, a run of some layers or heads only, a decoder that reads
            another text too.
        RunError: the run was written without its inputs.
        UnsupportedError: the formula has a term or a mask that the run could not describe.

    Source: Abnar & Zuidema 2020, §3 (attention rollout; rows are renormalised as in their code, which matters where a
    sink takes a share of the weight).
    """
    if not 0 <= residual < 1:
        raise InputError(WHERE, expected="a residual share from 0 to below 1", got=f"{residual:g}")
    layers = layers_of(run, part, WHERE)
    _check_whole(run, layers)
    check_exact(run, layers, WHERE)
    first = layers[0]
    tokens = run.tokens_of(first.query_sequence)
    position = token + tokens.num_rows if token < 0 else token
    if not 0 <= position < first.query_len:
        unread = position == first.query_len < tokens.num_rows
        raise InputError(
            WHERE,
            expected=f"a token from 0 to {first.query_len - 1}",
            got=f"{token}",
            do="the last token of a generated text has read nothing yet" if unread else None,
        )
    chains = np.zeros((len(layers), first.key_len))
    for done, info in enumerate(reversed(layers)):
        deepest = len(layers) - 1 - done
        chains[deepest, position] = 1.0
        chains[deepest:] = _through(run, info, chains[deepest:], residual)
        if progress is not None:
            progress(done + 1, len(layers))
    itself = np.zeros((1, first.key_len))
    itself[0, position] = 1.0
    labels = tokens.column("text").to_pylist()[: first.key_len]
    return Rollout(
        first.part, [info.layer for info in layers], position, residual, np.concatenate([itself, chains]), labels
    )


def _through(run: Run, info: LayerInfo, vectors: np.ndarray, residual: float) -> np.ndarray:
    """Row vectors `[vectors, tokens]` times Â of one layer."""
    found = np.zeros_like(vectors)
    rows = np.flatnonzero(vectors.any(0))
    for block in strips(info, rows):
        mean, keys = mean_weights(run, info, block)
        share = vectors[:, block] / _nonzero(residual + (1 - residual) * mean.sum(1))
        found[:, keys.start : keys.stop] += (1 - residual) * (share @ mean)
        found[:, block] += residual * share
    return found


def _nonzero(sums: np.ndarray) -> np.ndarray:
    """Row sums to divide by; that of a row without weight, where nothing is passed on either, is 1."""
    return np.where(sums == 0, 1.0, sums)


def _check_whole(run: Run, layers: list[LayerInfo]) -> None:
    first = layers[0]
    if f"{first.part}.cross" in {i.part for i in run.layers} or (
        first.part in ("self", "decoder") and any(i.part == "cross" for i in run.layers)
    ):
        raise InputError(
            WHERE,
            expected="layers that read their own text only",
            got=f"{first.part}, whose tokens read another text too",
            do="name the encoder with --part",
        )
    numbers = [info.layer for info in layers]
    model = run.meta["model"].get("layers")
    count = model if isinstance(model, int) and first.part == "self" else numbers[-1] + 1
    missing = sorted(set(range(count)) - set(numbers))
    if missing:
        raise InputError(
            WHERE,
            expected=f"a run of all {count} layers",
            got=f"one without attention of layer {missing[0]}",
            do="look at the text without --layers; through a layer of another kind, attention tells no contribution",
        )
    for info in layers:
        same = (info.query_len, info.query_offset, info.key_len, info.key_offset)
        if len(info.heads) != info.query_heads:
            raise InputError(
                WHERE,
                expected=f"all {info.query_heads} heads of layer {info.layer}",
                got=f"{len(info.heads)}",
                do="look at the text without --heads",
            )
        first_token = info.query_offset == info.key_offset == 0
        if not first_token or same != (first.query_len, first.query_offset, first.key_len, first.key_offset):
            raise InputError(
                WHERE, expected="layers over the same tokens, from the first", got=f"others in layer {info.layer}"
            )
