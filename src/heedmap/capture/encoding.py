"""What a tokenizer gives for one or two texts: inputs, which tokens it added, and offsets where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heedmap.capture.spans import Span
from heedmap.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Encoded:
    """Tokens as the tokenizer made them, uncut.

    ``columns`` are the model's inputs by name, one entry per token; ``added`` tells which tokens the tokenizer put
    there, ``segment`` is 0 for the first text and what stands before and behind it, 1 for the second; ``offsets`` are
    the tokenizer's own, None where it has none.
    """

    columns: dict[str, list[int]]
    added: list[bool]
    segment: list[int]
    offsets: list[Span] | None


def encode(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> Encoded:
    """The whole of one or two texts, never cut or padded, whatever the tokenizer's own settings say."""
    first, second = texts[0], texts[1] if len(texts) == 2 else None
    settings: dict[str, Any] = {"add_special_tokens": True, "padding": False, "truncation": False}
    if not tokenizer.is_fast:
        columns = _columns(tokenizer(first, second, **settings))
        parts = [list(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in texts]
        added, segment = _find_parts(columns["input_ids"], parts)
        return Encoded(columns, added, segment, None)
    settings |= {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    encoding = tokenizer(first, second, **settings)
    columns = _columns(encoding)
    offsets = [(start, end) for start, end in columns.pop("offset_mapping")]
    added = [bool(mark) for mark in columns.pop("special_tokens_mask")]
    return Encoded(columns, added, _fill(list(encoding.sequence_ids(0))), offsets)


def _columns(encoding: Any) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in encoding.items()}


def _fill(segments: list[int | None]) -> list[int]:
    """An added token belongs to the text before it, at the very beginning to the first."""
    filled: list[int] = []
    for segment in segments:
        filled.append(segment if segment is not None else (filled[-1] if filled else 0))
    return filled


def _find_parts(ids: list[int], parts: list[list[int]]) -> tuple[list[bool], list[int]]:
    """Find each text's own tokens within the whole, for tokenizers that do not tell."""
    segments: list[int | None] = [None] * len(ids)
    at = 0
    for segment, part in enumerate(parts):
        found = next((i for i in range(at, len(ids) - len(part) + 1) if ids[i : i + len(part)] == part), None)
        if found is None:
            raise InputError(
                "tokenise",
                expected="a tokenizer that gives a text the same tokens with and without special tokens",
                got="one that does not",
                do="take the fast version of this tokenizer (AutoTokenizer gives it where there is one)",
            )
        segments[found : found + len(part)] = [segment] * len(part)
        at = found + len(part)
    return [segment is None for segment in segments], _fill(segments)


def cut(encoded: Encoded, max_tokens: int | None) -> list[int]:
    """The tokens to keep: all that the tokenizer added, and the beginning of each text; the longer text gives first."""
    count = len(encoded.added)
    if max_tokens is None or count <= max_tokens:
        return list(range(count))
    own = [[i for i in range(count) if not encoded.added[i] and encoded.segment[i] == segment] for segment in (0, 1)]
    texts = [tokens for tokens in own if tokens]
    room = max_tokens - sum(encoded.added)
    if room < len(texts):
        raise InputError(
            "tokenise",
            expected=f"room for at least {sum(encoded.added) + len(texts)} tokens, the special ones included",
            got=f"--tokens {max_tokens} (max_tokens={max_tokens} in Python)",
        )
    lengths = [room]
    if len(texts) == 2:
        shorter = min(len(texts[0]), len(texts[1]), room // 2)
        lengths = [room - shorter, shorter] if len(texts[0]) >= len(texts[1]) else [shorter, room - shorter]
    dropped = {i for tokens, length in zip(texts, lengths, strict=True) for i in tokens[length:]}
    return [i for i in range(count) if i not in dropped]
