"""A text made ready for a model, or the reason why it cannot be."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedmap.capture.models import LoadedModel
from heedmap.capture.positions import positions_of
from heedmap.capture.quiet import quiet
from heedmap.capture.surfaces import Vocabulary
from heedmap.capture.tokens import Tokens, tokenise
from heedmap.capture.views import check_known
from heedmap.errors import HeedmapWarning, InputError
from heedmap.runs.kinds import kinds_of
from heedmap.sets.schema import EXCERPT, KINDS
from heedmap.textsets.records import Record

Array = np.ndarray[Any, Any]
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class Prepared:
    """One text of a shard: what the model reads of it, and what its tokens are.

    Attributes:
        place: its place in the shard.
        inputs: of the tokenizer, `[1, tokens]` each.
        special, punctuation: bool `[tokens]`.
        kinds: number of the kind of each token in the order of `KINDS`, `[tokens]`.
        copies: rows with an earlier copy of their token, and with one that another token followed.
    """

    place: int
    tokens: Tokens
    inputs: dict[str, Tensor]
    special: Array
    punctuation: Array
    kinds: Array
    copies: tuple[int, int]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Refused:
    """A text that is left out, and why."""

    place: int
    reason: str


class Reader:
    """How the texts of a set become a model's: what is asked of model and tokenizer once for all of them."""

    def __init__(self, loaded: LoadedModel, max_tokens: int | None = None) -> None:
        self.loaded = loaded
        self.max_tokens = max_tokens
        self.positions = positions_of(loaded.model.config)
        with quiet():
            self.vocabulary = Vocabulary(loaded.tokenizer)


def prepare(place: int, record: Record, reader: Reader, told: Counter[str]) -> Prepared | Refused:
    """Tokenise one text; warnings are counted in `told`."""
    if record.text is None:
        return Refused(place, record.problem or "no text")
    if not record.text.strip():
        return Refused(place, "empty" if not record.text else "only white space")
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", HeedmapWarning)
            tokens, inputs = tokenise(
                reader.loaded.tokenizer,
                record.text,
                max_tokens=reader.max_tokens,
                positions=reader.positions,
                vocabulary=reader.vocabulary,
            )
        check_known(reader.loaded.model, tokens)
    except InputError as error:
        return Refused(place, f"expected {error.expected}, got {error.got}"[:300])
    told.update(str(warning.message) for warning in heard if issubclass(warning.category, HeedmapWarning))
    marks = kinds_of(tokens.special, tokens.segment, tokens.start, tokens.end, [record.text, ""])
    special, punctuation = (np.array(marks[name], dtype=bool) for name in ("special", "punctuation"))
    return Prepared(
        place, tokens, inputs, special, punctuation, _kinds(tokens, special, punctuation), _copies(tokens.ids)
    )


def _kinds(tokens: Tokens, special: Array, punctuation: Array) -> Array:
    found = np.empty(len(tokens), dtype=np.int64)
    before = -1
    for at, (start, end, word) in enumerate(zip(tokens.start, tokens.end, tokens.word, strict=True)):
        surface = tokens.text[start:end] if start >= 0 else ""
        if at == 0:
            kind = "first"
        elif special[at]:
            kind = "special"
        elif punctuation[at]:
            kind = "punctuation"
        elif any(map(str.isdigit, surface)) and not any(map(str.isalpha, surface)):
            kind = "number"
        elif word < 0 or not any(map(str.isalnum, surface)):
            kind = "other"
        else:
            kind = "piece" if word == before else "word"
        before = word if word >= 0 else before
        found[at] = _NUMBERS[kind]
    return found


def _copies(ids: list[int]) -> tuple[int, int]:
    """Rows whose token stands earlier, and at least two places earlier, so that another followed that copy."""
    first: dict[int, int] = {}
    counts = [0, 0]
    for position, token in enumerate(ids):
        earliest = first.setdefault(token, position)
        counts[0] += earliest < position
        counts[1] += earliest + 1 < position
    return counts[0], counts[1]


def excerpt(text: str | None) -> str:
    """The beginning of a text for a table, whatever it holds."""
    return (text or "")[:EXCERPT].encode("utf-8", "backslashreplace").decode()


def text_digest(text: str | None) -> str:
    """sha256 of a text, by which two sets know it for the same one; empty where there is none."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def stacked(texts: list[Prepared], pad: int) -> dict[str, Tensor]:
    """The inputs of several texts, padded at their right end, so that every token keeps its position."""
    longest = max(map(len, texts))
    fill = {"input_ids": pad}
    columns: dict[str, list[Tensor]] = {}
    for text in texts:
        inputs = text.inputs if "attention_mask" in text.inputs else text.inputs | {
            "attention_mask": torch.ones_like(text.inputs["input_ids"])
        }  # fmt: skip
        for name, values in inputs.items():
            wide = torch.nn.functional.pad(values, (0, longest - values.shape[1]), value=fill.get(name, 0))
            columns.setdefault(name, []).append(wide)
    return {name: torch.cat(values) for name, values in columns.items()}
