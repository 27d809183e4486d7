"""What a token says, as bytes: a vocabulary's own spelling (``Ġcat``, ``▁cat``, ``##s``, ``<0xE2>``) as text again.

A token's spelling is never shown to anyone. It is needed where offsets are missing or wrong: to place the token in the
original string, and, where even that fails, as the label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>|<\|byte(\d{1,3})\|>")  # SentencePiece · GPT-NeoX Japanese
_Read = Callable[[str], bytes]
_NAMED = ("bos", "eos", "cls", "sep", "pad", "mask")


def _byte_alphabet() -> dict[str, int]:
    """The stand-ins of byte-level vocabularies (GPT-2): printable Latin letters are themselves, the other bytes are
    moved to U+0100 and up, in order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in set(kept)]
    return {chr(byte): byte for byte in kept} | {chr(256 + index): byte for index, byte in enumerate(moved)}


_BYTES = _byte_alphabet()


class Vocabulary:
    """What the ids of a tokenizer say and which of them are special, asked once for many texts.

    Attributes:
        special: ids of special tokens (chat marks too).
        unknown: the id that stands for unknown text, or None. It is not special, unless it also serves as another
            special token, or the vocabulary covers every byte, so that it never stands for text (byte-level
            vocabularies: then it is a mark like the others).
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._added = _added_tokens(tokenizer)
        self._roles = {getattr(tokenizer, f"{name}_token_id", None): f"[{name.upper()}]" for name in _NAMED}
        self._read, self._read_added = _readers(tokenizer)
        self._says: dict[int, bytes] = {}
        self.special = {int(index) for index in tokenizer.all_special_ids}
        for index, token in self._added.items():
            if getattr(token, "special", False) and not _BYTE_TOKEN.fullmatch(token.content):  # some call bytes special
                self.special.add(int(index))
        self.unknown = self._unknown()
        self.special -= {self.unknown}

    def _unknown(self) -> int | None:
        unknown: Any = self._tokenizer.unk_token_id
        if unknown is None or unknown in self._roles:
            return None
        model = _backend_model(self._tokenizer)
        if model is not None and type(model).__name__ != "Unigram" and getattr(model, "unk_token", None) is None:
            return None
        return int(unknown)

    def name(self, index: int) -> str:
        """The name of a special token: its own spelling, or ``[CLS]`` and the like where that cannot be printed."""
        spelling = _spelling(self._tokenizer, index)
        printable = spelling.isprintable() and spelling.strip()
        return spelling if printable else self._roles.get(index, f"[{index}]")

    def surfaces(self, ids: Iterable[int]) -> list[bytes]:
        """The UTF-8 bytes each id adds to a text; part of a character where a token holds only part of one."""
        return [self._surface(index) for index in ids]

    def _surface(self, index: int) -> bytes:
        if index not in self._says:
            read = self._read_added if index in self._added else self._read
            self._says[index] = read(_spelling(self._tokenizer, index))
        return self._says[index]


def _readers(tokenizer: PreTrainedTokenizerBase) -> tuple[_Read, _Read]:
    """How this tokenizer's spellings are read, those of the vocabulary and those of added tokens, decided once from
    its own description."""
    if getattr(tokenizer, "_utf_vocab_size", None) == 256:  # ByT5, Perceiver: one character stands for one byte
        return _read_latin_1, _read_plain
    model = _backend_model(tokenizer)
    if model is None:
        if hasattr(tokenizer, "byte_decoder"):
            return _read_byte_level, _read_plain
        read = partial(_read_pieces, prefix="##", suffixes=("</w>", "@@"), underscored=True)
        return read, read
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    described = f"{backend.normalizer} {backend.pre_tokenizer} {backend.decoder}"
    suffixes = (getattr(model, "end_of_word_suffix", None) or "",)
    if "ByteLevel" in described:
        return partial(_read_byte_level, suffixes=suffixes), _read_plain
    prefix = getattr(model, "continuing_subword_prefix", None) or ""
    read = partial(_read_pieces, prefix=prefix, suffixes=suffixes, underscored="▁" in described)
    return read, read


def _read_plain(spelling: str) -> bytes:
    return spelling.encode("utf-8", "replace")


def _read_latin_1(spelling: str) -> bytes:
    return bytes(ord(char) & 0xFF for char in spelling)


def _read_byte_level(spelling: str, suffixes: tuple[str, ...] = ()) -> bytes:
    spelling = _without_suffix(spelling, suffixes)  # CLIP is byte-level and marks the end of a word
    if all(char in _BYTES for char in spelling):
        return bytes(_BYTES[char] for char in spelling)
    return _read_plain(spelling)


def _read_pieces(spelling: str, prefix: str, suffixes: tuple[str, ...], underscored: bool) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(spelling)
    if byte:
        return bytes([int(byte[1], 16) if byte[1] else int(byte[2]) & 0xFF])
    if len(spelling) > len(prefix):
        spelling = spelling.removeprefix(prefix)
    spelling = _without_suffix(spelling, suffixes)
    return _read_plain(spelling.replace("▁", " ") if underscored else spelling)


def _without_suffix(spelling: str, suffixes: tuple[str, ...]) -> str:
    for suffix in suffixes:
        if len(spelling) > len(suffix):
            spelling = spelling.removesuffix(suffix)
    return spelling


def _spelling(tokenizer: PreTrainedTokenizerBase, index: int) -> str:
    token = tokenizer.convert_ids_to_tokens(index)
    if isinstance(token, bytes):  # tiktoken-like vocabularies
        return token.decode("utf-8", "replace")
    return token if isinstance(token, str) else ""


def _added_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, Any]:
    return getattr(tokenizer, "added_tokens_decoder", {})


def _backend_model(tokenizer: PreTrainedTokenizerBase) -> Any:
    """The model of a fast tokenizer; None for one written in Python."""
    return getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
