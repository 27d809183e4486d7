"""The strongest pairs of a short text: which word looks at which other word, and in which head."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heedmap.heads.evidence import hides_ahead
from heedmap.heads.telling import beyond_even
from heedmap.runs.words import SPACES, to_words

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

LONGEST = 128  # tokens of a text whose pairs are worth listing one by one


@dataclass(frozen=True)
class Pair:
    """One word looking at another: the position of the first token of each, their texts, the weight (what goes to the
    tokens of a word is summed, what they give averaged), and the head in which it is largest."""

    query: int
    key: int
    query_text: str
    key_text: str
    weight: float
    part: str
    layer: int
    head: int


def strongest_pairs(run: Run, top: int = 8) -> list[Pair]:
    """The pairs of words with the largest weight in any head, each pair once, strongest first.

    Left out: special tokens, punctuation and white space, a word itself and its immediate neighbours, in causal layers
    the first token, where heads with nothing to say look, and weights that even attention might give. Empty
    for texts of more than 128 tokens and for runs that hold neither a map with a cell per token nor their inputs.
    """
    if run.tokens_of().num_rows > LONGEST:
        return []
    words = run.words_of()
    texts: list[str] = words.table.column("text").to_pylist()
    tokens: list[int] = words.table.column("first").to_pylist()
    best = np.zeros((len(texts), len(texts)))
    where = np.zeros(best.shape, dtype=np.int64)
    candidates = _candidates(texts, words.table.column("special").to_pylist())
    for index, (part, layer, head) in enumerate(run.heads):
        info = run.layer(layer, part)
        weights = None if info.cross or info.query_sequence != "text" else _exact_map(run, info, head)
        if weights is None:
            continue
        found = _telling(run, info, np.nan_to_num(weights))
        better = found > best
        best = np.where(better, found, best)
        where[better] = index
    best = np.where(candidates, best, 0.0)
    order = np.argsort(-best, axis=None, kind="stable")[:top]
    pairs = []
    for query, key in zip(*np.unravel_index(order, best.shape), strict=True):
        if best[query, key] > 0:
            part, layer, head = run.heads[where[query, key]]
            weight = float(best[query, key])
            pairs.append(Pair(tokens[query], tokens[key], texts[query], texts[key], weight, part, layer, head))
    return pairs


def _telling(run: Run, info: LayerInfo, weights: np.ndarray) -> np.ndarray:
    """One head's weights between words, 0 where they tell nothing."""
    words = run.words_of()
    causal = not np.triu(weights, 1 + info.query_offset - info.key_offset).any()
    shift = info.query_offset - info.key_offset
    seen = np.tri(info.query_len, info.key_len, shift) if hides_ahead(info.mask) else np.ones(weights.shape)
    even = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    if causal and info.key_offset == 0:
        weights = np.where(np.arange(info.key_len) == 0, 0.0, weights)
    rows = words.of_token[info.query_offset : info.query_offset + info.query_len]
    columns = words.of_token[info.key_offset : info.key_offset + info.key_len]
    every = np.arange(len(words))
    found, chance = (np.nan_to_num(to_words(table, rows, columns, every, every)) for table in (weights, even))
    return np.where(found >= beyond_even(chance), found, 0.0)


def _candidates(texts: list[str], special: list[bool]) -> np.ndarray:
    """Which (query, key) are a pair of words, bool ``[words, words]``."""
    speaks = np.array([not s and _has_word(text) for s, text in zip(special, texts, strict=True)])
    number = np.arange(len(texts))
    far = np.abs(number[:, None] - number[None, :]) > 1
    return speaks[:, None] & speaks[None, :] & far


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
    return run.weights(info.layer, head, part=info.part) if info.exact else None
