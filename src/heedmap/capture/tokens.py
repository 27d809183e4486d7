"""From text to tokens: ids for the model, and for the reader labels, places in the original text, and words."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from heedmap.attention.checks import whole
from heedmap.capture.encoding import Encoded, cut, encode
from heedmap.capture.labels import labels, readable
from heedmap.capture.quiet import quiet
from heedmap.capture.spans import Placed, Span, place
from heedmap.capture.surfaces import Vocabulary
from heedmap.capture.words import token_words
from heedmap.errors import HeedmapWarning, InputError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text, one entry per token in every list.

    ``labels`` are readable text; ``start`` and ``end`` count characters of the original string (of ``text_pair`` where
    ``segment`` is 1) and are −1 for a token that stands for none of them, as the tokens do that the tokenizer adds;
    ``word`` numbers the words of the text, −1 for none; ``special`` goes by token id, so a ``[SEP]`` typed by the user
    is special too, but has a place in the text; ``truncated_from`` is the number of tokens before they were cut.
    """

    text: str
    ids: list[int]
    labels: list[str]
    start: list[int]
    end: list[int]
    word: list[int]
    special: list[bool]
    segment: list[int]
    text_pair: str | None = None
    truncated_from: int | None = None

    def __len__(self) -> int:
        return len(self.ids)


def tokenise(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    text_pair: str | None = None,
    *,
    max_tokens: int | None = None,
    positions: int | None = None,
    vocabulary: Vocabulary | None = None,
) -> tuple[Tokens, dict[str, Tensor]]:
    """Turn a text, or a pair of texts, into tokens with readable labels and the model's inputs.

    Returns the tokens and the tokenizer's own inputs (``input_ids``, ``attention_mask``, …), int64 ``[1, tokens]``.
    ``max_tokens`` cuts the text at its end, that of a pair at the longer one, and keeps the special tokens that the
    tokenizer adds; ``positions`` is the longest input the model takes
    (:func:`heedmap.capture.positions.positions_of`); ``vocabulary`` is the tokenizer's, where many texts are read.

    Raises InputError for a text that is empty or holds nothing but special tokens, a NUL character, half a surrogate
    pair, more tokens than ``positions``, or a ``max_tokens`` that leaves no room for the text. Warns (HeedmapWarning)
    where a text already begins with the token that the tokenizer puts before it.
    """
    if max_tokens is not None:
        max_tokens = whole("tokenise", "max_tokens", max_tokens, largest=math.inf)
    texts = [text] if text_pair is None else [text, text_pair]
    for given in texts:
        _check_text(given)
    with quiet():
        encoded = encode(tokenizer, texts)
        known = vocabulary or Vocabulary(tokenizer)
    ids = encoded.columns["input_ids"]
    is_special = [index in known.special for index in ids]
    _check_content(encoded, is_special, len(texts))
    _warn_about_second_beginning(known, encoded, is_special)
    kept = cut(encoded, max_tokens)
    if positions is not None and len(kept) > positions:
        raise InputError(
            "tokenise",
            expected=f"at most {positions} tokens, the positions of this model",
            got=f"{len(kept)} tokens",
            do=f"cut the text with --tokens {positions} (max_tokens={positions} in Python), or take a model for "
            "longer texts",
        )
    shown = [readable(known.name(index)) if mark else "" for index, mark in zip(ids, is_special, strict=True)]
    spans: list[Span | None] = [None] * len(ids)
    word = [-1] * len(ids)
    for segment, given in enumerate(texts):
        own = [i for i in range(len(ids)) if encoded.segment[i] == segment and not encoded.added[i]]
        says = known.surfaces(ids[i] for i in own)
        offsets = None if encoded.offsets is None else [encoded.offsets[i] for i in own]
        placed = place(given, offsets, says, [ids[i] == known.unknown for i in own])
        called = _labels(given, placed, says, known.unknown, ids, own)
        for i, span, label in zip(own, placed.spans, called, strict=True):
            spans[i] = span
            shown[i] = shown[i] or label
        visible = [None if is_special[i] else spans[i] for i in own]
        for i, number in zip(own, token_words(given, visible, first=max(word) + 1), strict=True):
            word[i] = number
    tokens = Tokens(
        text=text,
        ids=[ids[i] for i in kept],
        labels=[shown[i] for i in kept],
        start=[span[0] if (span := spans[i]) is not None else -1 for i in kept],
        end=[span[1] if (span := spans[i]) is not None else -1 for i in kept],
        word=[word[i] for i in kept],
        special=[is_special[i] for i in kept],
        segment=[encoded.segment[i] for i in kept],
        text_pair=text_pair,
        truncated_from=len(ids) if len(kept) < len(ids) else None,
    )
    inputs = {name: torch.tensor([[column[i] for i in kept]]) for name, column in encoded.columns.items()}
    return tokens, inputs


def _labels(
    text: str, placed: Placed, says: list[bytes], unknown: int | None, ids: list[int], own: list[int]
) -> list[str]:
    """The labels of one text's tokens; an unknown token without a place is shown by its own name."""
    shown = labels(text, placed, says)
    for at, i in enumerate(own):
        if ids[i] == unknown and placed.spans[at] is None:
            shown[at] = readable(says[at].decode("utf-8", "replace"))
    return shown


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise InputError("tokenise", expected="a text (str)", got=type(text).__name__)
    if not text:
        raise InputError("tokenise", expected="a text", got="an empty one")
    at = text.find("\0")
    if at >= 0:
        raise InputError(
            "tokenise",
            expected="a text",
            got=f"a NUL character at character {at}",
            do="take it out; files that hold NUL are mostly binary, or UTF-16",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "tokenise",
            expected="text in Unicode",
            got=f"half a surrogate pair (U+{ord(text[error.start]):04X}) at character {error.start}",
            do="decode the text as what it is, mostly UTF-8",
        ) from None


def _check_content(encoded: Encoded, is_special: list[bool], texts: int) -> None:
    for segment in range(texts):
        own = [of == segment and not added for of, added in zip(encoded.segment, encoded.added, strict=True)]
        content = [mark for mark, counts in zip(is_special, own, strict=True) if counts]
        if all(content):
            which = "" if texts == 1 else ("first " if segment == 0 else "second ")
            raise InputError(
                "tokenise",
                expected=f"a {which}text with at least one token of its own",
                got="nothing but special tokens" if content else "none: this tokenizer drops all that stands there",
                do="give some words",
            )


def _warn_about_second_beginning(known: Vocabulary, encoded: Encoded, is_special: list[bool]) -> None:
    """A text that brings the beginning token along is read with two of them."""
    ids = encoded.columns["input_ids"]
    first = encoded.added.index(False)
    if first > 0 and is_special[first] and ids[first] == ids[first - 1]:
        name = known.name(ids[first])
        warnings.warn(
            f"the text already begins with {name}, and the tokenizer puts its own before it: the model reads two; "
            f"take {name} out of the text to have one",
            HeedmapWarning,
            stacklevel=3,
        )
