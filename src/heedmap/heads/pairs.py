"""The strongest pairs of a short text: which word looks at which other word, and in which head."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

SPACES = "␣⏎⇥"
LONGEST = 128  # tokens of a text whose pairs are worth listing one by one


@dataclass(frozen=True)
class Pair:
    """One token looking at another: text positions, labels without the white space around them, the weight, and the
    head in which it is largest."""

    query: int
    key: int
    query_text: str
    key_text: str
    weight: float
    part: str
    layer: int
    head: int


def strongest_pairs(run: Run, top: int = 8) -> list[Pair]:
    """The pairs of tokens with the largest weight in any head, each pair once, strongest first.

    Left out: special tokens, punctuation and white space, a token itself and its immediate neighbours (distance −1, 0,
    1), pieces of the same word, and in causal layers the first token, where heads with nothing to say look. Empty for
    texts of more than 128 tokens and for runs that hold neither a map with a cell per token nor their inputs.
    """
    tokens = run.tokens_of()
    labels: list[str] = tokens.column("text").to_pylist()
    if len(labels) > LONGEST:
        return []
    best = np.zeros((len(labels), len(labels)))
    where = np.zeros(best.shape, dtype=np.int64)
    candidates = _candidates(labels, tokens.column("special").to_pylist(), tokens.column("word").to_pylist())
    for index, (part, layer, head) in enumerate(run.heads):
        info = run.layer(layer, part)
        weights = None if info.cross or info.query_sequence != "text" else _exact_map(run, info, head)
        if weights is None:
            continue
        causal = not np.triu(weights, 1 + info.query_offset - info.key_offset).any()
        full = np.zeros(best.shape)
        full[
            info.query_offset : info.query_offset + info.query_len, info.key_offset : info.key_offset + info.key_len
        ] = np.nan_to_num(weights)
        if causal:
            full[:, 0] = 0.0
        better = full > best
        best = np.where(better, full, best)
        where[better] = index
    best = np.where(candidates, best, 0.0)
    order = np.argsort(-best, axis=None, kind="stable")[:top]
    pairs = []
    for query, key in zip(*np.unravel_index(order, best.shape), strict=True):
        if best[query, key] > 0:
            part, layer, head = run.heads[where[query, key]]
            weight = float(best[query, key])
            words = bare(labels[query]), bare(labels[key])
            pairs.append(Pair(int(query), int(key), *words, weight, part, layer, head))
    return pairs


def bare(label: str) -> str:
    """A token's label without the white space that byte-level vocabularies keep before a word."""
    return label.strip(SPACES) or label


def _candidates(labels: list[str], special: list[bool], word: list[int]) -> np.ndarray:
    """Which (query, key) are a pair of words, bool ``[tokens, tokens]``."""
    speaks = np.array([not s and _has_word(label) for s, label in zip(special, labels, strict=True)])
    position = np.arange(len(labels))
    far = np.abs(position[:, None] - position[None, :]) > 1
    words = np.array(word)
    same_word = (words[:, None] == words[None, :]) & (words[:, None] >= 0)
    return speaks[:, None] & speaks[None, :] & far & ~same_word


def _has_word(label: str) -> bool:
    """Whether a label holds more than punctuation and signs of white space."""
    return any(unicodedata.category(letter)[0] not in "PZC" and letter not in SPACES for letter in label)


def _exact_map(run: Run, info: LayerInfo, head: int) -> np.ndarray | None:
    """The head's weights from its map where every cell is one token, else from its inputs, else None."""
    names = [name for name in ("max", "mean") if f"map_{name}" in run.meta["statistics"]]
    for kind in names:
        cells = run.map(info.layer, head, kind, part=info.part)
        if cells.shape == (info.query_len, info.key_len):
            return cells
    if info.inputs and not info.unknown_terms and info.mask.get("kind") != "opaque":
        return run.weights(info.layer, head, part=info.part)
    return None
