"""From tokens to words, as Clark et al. 2019 do (§3): what goes to a word's tokens is summed, what they give averaged.

    W[a, b] = mean over tokens i of word a of  Σ over tokens j of word b  w[i, j]

So the rows of words sum to what the rows of tokens did. A token that belongs to no word (a special token, white space)
stays by itself. Source: Clark et al. 2019, §4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from heedmap.errors import InputError
from heedmap.runs.formula import BLOCK_BYTES
from heedmap.runs.selection import Positions, rows_of

if TYPE_CHECKING:
    from heedmap.runs.reader import Run

Array = np.ndarray[Any, Any]

SPACES = "␣⏎⇥"
"""Signs of white space in labels."""
_KEYS = ("part", "layer", "head", "position")
_SUMS = ("received", "value_received")
_LARGEST = ("received_max",)


class Words:
    """The words of one sequence of tokens, numbered in the order of the text.

    Attributes:
        of_token: number of the word of each token, int64 `[tokens]`.
        table: one row a word: `position` (its number), `text`, `first` (position of its first token), `tokens` (how
            many it has), `special` (a special token, which stays by itself).
    """

    def __init__(self, tokens: pa.Table, texts: tuple[str, str]) -> None:
        numbers: dict[tuple[str, int], int] = {}
        word = tokens.column("word").to_pylist()
        keys = [("word", number) if number >= 0 else ("token", index) for index, number in enumerate(word)]
        self.of_token = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        members: list[list[int]] = [[] for _ in numbers]
        for token, number in enumerate(self.of_token.tolist()):
            members[number].append(token)
        columns = {name: tokens.column(name).to_pylist() for name in ("text", "start", "end", "segment", "special")}
        self.table = pa.table(
            {
                "position": pa.array(range(len(members)), pa.int32()),
                "text": [_text(own, columns, texts) for own in members],
                "first": pa.array([own[0] for own in members], pa.int32()),
                "tokens": pa.array([len(own) for own in members], pa.int32()),
                "special": [columns["special"][own[0]] for own in members],
            }
        )

    def __len__(self) -> int:
        return self.table.num_rows

    def tokens(self, words: Array, start: int, stop: int) -> Array:
        """Positions within `[start, stop)` of the tokens of these words, ascending."""
        positions = np.flatnonzero(np.isin(self.of_token, words))
        return positions[(positions >= start) & (positions < stop)]

    def within(self, start: int, stop: int) -> tuple[int, int]:
        """The first word with a token within positions `[start, stop)`, and how many words there are from it on."""
        own = self.of_token[start:stop]
        return int(own.min()), int(own.max() - own.min()) + 1


def _text(own: list[int], columns: dict[str, list[Any]], texts: tuple[str, str]) -> str:
    """The text that a word covers, or the label of a token that covers none."""
    placed = [token for token in own if columns["start"][token] >= 0]
    label = "".join(columns["text"][token] for token in own)
    if len(own) == 1 or not placed:
        return label.strip(SPACES) or label
    text = texts[columns["segment"][placed[0]]]
    covered = text[min(columns["start"][t] for t in placed) : max(columns["end"][t] for t in placed)]
    return covered.strip() or label


def to_words(weights: Array, rows: Array, columns: Array, queries: Array, keys: Array) -> Array:
    """Weights of tokens as weights of words.

    Args:
        weights: `[len(rows), len(columns)]`, of the tokens whose words are `rows` and `columns`.
        rows, columns: number of the word of each row and column.
        queries, keys: the words wanted, in this order.

    Returns:
        float32 `[queries, keys]`; NaN for a word none of whose tokens has a row.
    """
    summed = _sums(weights, columns, keys, axis=1)
    count = _sums(np.ones(len(rows)), rows, queries, axis=0)
    with np.errstate(invalid="ignore"):
        return (_sums(summed, rows, queries, axis=0) / np.where(count == 0, np.nan, count)[:, None]).astype(np.float32)


def _sums(values: Array, groups: Array, wanted: Array, axis: int) -> Array:
    """Sums in float64 over the entries of each wanted group along an axis; 0 for a group without any."""
    shape = list(values.shape)
    shape[axis] = len(wanted)
    if not len(groups):
        return np.zeros(shape)
    order = np.argsort(groups, kind="stable")
    have, starts = np.unique(groups[order], return_index=True)
    sums = np.add.reduceat(np.take(values, order, axis), starts, axis, dtype=np.float64)
    place = np.minimum(np.searchsorted(have, wanted), len(have) - 1)
    found = np.take(sums, place, axis)
    missing = have[place] != wanted
    found[(slice(None),) * axis + (missing,)] = 0.0
    return found


def word_weights(
    run: Run, level: str, layer: int, head: int, queries: Positions, keys: Positions, part: str | None
) -> Array:
    """Weights between the words asked for, float32 `[queries, keys]`; see `Run.weights`.

    None means the words that have a row (the last word of a generated text may have read nothing), or a key.
    """
    _check_level(level, "run.weights")
    info = run.layer(layer, part)
    asked, offered = run.words_of(info.query_sequence), run.words_of(info.key_sequence)
    rows = _numbers(asked.within(info.query_offset, info.query_offset + info.query_len), queries, "queries")
    columns = _numbers(offered.within(info.key_offset, info.key_offset + info.key_len), keys, "keys")
    at = offered.tokens(columns, info.key_offset, info.key_offset + info.key_len)
    result = np.empty((len(rows), len(columns)), np.float32)
    step = max(1, BLOCK_BYTES // (32 * max(1, len(at))))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        own = asked.tokens(block, info.query_offset, info.query_offset + info.query_len)
        window = run.weights(layer, head, own, at, part=part)
        result[start : start + step] = to_words(window, asked.of_token[own], offered.of_token[at], block, columns)
    return result


def _numbers(words: tuple[int, int], asked: Positions, name: str) -> Array:
    """The numbers of the words asked for, among so many from the first on."""
    first, count = words
    return np.arange(first, first + count)[rows_of(asked, first, count, where="run.weights", name=name)]


def _check_level(level: str, where: str) -> None:
    if level != "word":
        raise InputError(where, expected='level "token" or "word"', got=repr(level))


def word_table(
    run: Run,
    level: str,
    name: str,
    part: str | None,
    layer: int | None,
    head: int | None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The query or key table of a run with one row a word: `part, layer, head, position` and what has a meaning there.

    `query`: statistics of rows that average (or whose largest counts, as `max_score`), over the rows of each word; the
    entropy is the mean of its tokens' entropies. `key`: `received` and `value_received`, summed over the word's tokens,
    and the largest `received_max`.

    Raises:
        InputError: another table, or a column that has no meaning there.
    """
    _check_level(level, "run.table")
    if name not in ("query", "key"):
        raise InputError("run.table", expected='level="word" for the query or the key table', got=repr(name))
    meaning = _meaning(run, name)
    for column in columns or ():
        if column not in (known := [*_KEYS, *meaning]):
            raise InputError("run.table", expected=f"a column among {', '.join(known)}", got=repr(column))
    wanted = {column: how for column, how in meaning.items() if columns is None or column in columns}
    parts: list[pa.Table] = []
    for key in run.heads:
        if any(want not in (None, have) for want, have in zip((part, layer, head), key, strict=True)):
            continue
        table = run.table(name, part=key[0], layer=key[1], head=key[2], columns=["position", *wanted])
        info = run.layer(key[1], key[0])
        words = run.words_of(info.query_sequence if name == "query" else info.key_sequence)
        own = words.of_token[table.column("position").to_numpy()]
        numbers = np.unique(own)
        reduced: dict[str, Any] = {
            "part": pa.array([key[0]] * len(numbers)).dictionary_encode(),
            "layer": pa.array([key[1]] * len(numbers), pa.int32()),
            "head": pa.array([key[2]] * len(numbers), pa.int32()),
            "position": pa.array(numbers, pa.int32()),
        }
        for column, how in wanted.items():
            reduced[column] = _reduced(table.column(column), own, numbers, how)
        parts.append(pa.table(reduced))
    table = pa.concat_tables(parts)
    return table if columns is None else table.select(list(columns))


def _meaning(run: Run, name: str) -> dict[str, str]:
    """Column → how its values of several tokens become one of a word."""
    statistics = run.meta["statistics"]
    if name == "key":
        known = dict.fromkeys(_SUMS, "sum") | dict.fromkeys(_LARGEST, "max")
        return {column: how for column, how in known.items() if column in statistics}
    return {column: how for column in statistics if (how := statistics[column].get("over_rows")) is not None}


def _reduced(column: pa.ChunkedArray, groups: Array, wanted: Array, how: str) -> pa.Array:
    """The values of each word; null where the head has none (distance in cross-attention)."""
    listed = pa.types.is_fixed_size_list(column.type)
    if column.null_count == len(column):
        return pa.nulls(len(wanted), pa.list_(pa.float64(), column.type.list_size) if listed else pa.float64())
    values = np.stack(column.to_numpy(zero_copy_only=False)) if listed else column.to_numpy(zero_copy_only=False)
    values = values.astype(np.float64)
    said = np.isfinite(values)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], wanted)
    if how == "max":
        result = np.maximum.reduceat(np.where(said, values, -np.inf)[order], starts)
        result[~np.logical_or.reduceat(said[order], starts)] = np.nan
    else:
        result = np.add.reduceat(np.where(said, values, 0.0)[order], starts)
        count = np.add.reduceat(said[order].astype(np.int64), starts)
        if how == "mean":
            result = np.divide(result, count, out=np.full(result.shape, np.nan), where=count > 0)
    if listed:
        return pa.FixedSizeListArray.from_arrays(pa.array(result.reshape(-1)), result.shape[1])
    return pa.array(result)
