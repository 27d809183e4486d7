"""Gold coreference chains from the `Entity` field of CoNLL-U: documents with their mentions.

An opening bracket `(1-person-new-…` begins a mention on this word, `1)` ends it, `(1-person-…)` is a mention of one
word; they may nest, and a mention in pieces has its pieces numbered (`(1[1/2]-…`, `1[1/2])`). The document's
`# global.Entity` line names the parts between dashes; the first is the chain. A mention is represented by one word: of
its `minspan` (numbers of words within the mention) or `head` the one that governs the others in the tree. Empty nodes
count in those numbers and are no words: a mention of nothing else is left out, and counted.

Source: universaldependencies.org/misc.html#entity; CorefUD format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from heedmap.errors import InputError
from heedmap.heads.trees import ROOT, Sentence

KINDS = ("pronoun", "proper", "nominal")
_ITEM = re.compile(r"\((?P<opened>[^()]+)(?P<alone>\))?|(?P<closed>[^()]+)\)")
_PIECE = re.compile(r"(?P<chain>.+)\[(?P<number>\d+)/(?P<of>\d+)\]")


@dataclass(frozen=True)
class Mention:
    """One mention: the words of a document that it has, the word that stands for it, its chain and its kind.

    `word` is the form of the head, case aside; `kind` goes by the head's part of speech: `pronoun` (PRON), `proper`
    (PROPN) or `nominal`.
    """

    words: tuple[int, ...]
    head: int
    chain: str
    kind: str
    word: str


@dataclass(frozen=True)
class Document:
    """Sentences that belong together, and their mentions in the order of their heads.

    `starts` is the number of each sentence's first word in the document; `unsaid` counts the mentions of empty nodes
    alone, which are left out.
    """

    name: str
    sentences: tuple[Sentence, ...]
    starts: tuple[int, ...]
    mentions: tuple[Mention, ...]
    unsaid: int = 0

    @property
    def anaphors(self) -> list[Mention]:
        """Mentions whose chain has an earlier one: with a head further to the left."""
        first: dict[str, int] = {}
        for mention in self.mentions:
            first[mention.chain] = min(mention.head, first.get(mention.chain, mention.head))
        return [mention for mention in self.mentions if first[mention.chain] < mention.head]


@dataclass
class _Open:
    """A mention, or a piece of one, that has begun and not ended."""

    fields: Sequence[str]
    number: int
    of: int
    words: list[int] = field(default_factory=list)


def documents_of(sentences: Iterable[Sentence], name: str) -> list[Document]:
    """The documents of a file; one that does not say where documents begin is one, called `name`.

    Raises:
        InputError: brackets that do not fit together, or no chain in any document.
    """
    groups: list[list[Sentence]] = []
    for sentence in sentences:
        if sentence.document is not None or not groups:
            groups.append([])
        groups[-1].append(sentence)
    documents = [_document(group, group[0].document or name) for group in groups]
    if not any(document.mentions for document in documents):
        raise InputError(
            "coreference",
            expected=f"coreference chains in {name} (Entity=… in column MISC, named by # global.Entity)",
            got="none",
            do="give documents of GUM or CorefUD, or GAP's tab-separated file",
        )
    return documents


def _document(sentences: list[Sentence], name: str) -> Document:
    starts, count = [], 0
    for sentence in sentences:
        starts.append(count)
        count += len(sentence.words)
    parts = next((sentence.entity for sentence in sentences if sentence.entity), "") or "GRP"
    reader = _Brackets(parts.split("-"), name)
    words = [(start, sentence, number) for start, sentence in zip(starts, sentences, strict=True)
             for number in range(len(sentence.words))]  # fmt: skip
    for start, sentence in zip(starts, sentences, strict=True):
        for place, value in _values(sentence):
            reader.read(None if place is None else start + place, value, sentence)
    reader.check_closed()
    said = [found for found in reader.found if max(found[0]) >= 0]
    mentions = [_mention(own, chain, fields, words) for own, chain, fields in said]
    order = sorted(mentions, key=lambda mention: (mention.head, mention.words[0], -len(mention.words)))
    return Document(name, tuple(sentences), tuple(starts), tuple(order), len(reader.found) - len(said))


def _values(sentence: Sentence) -> Iterator[tuple[int | None, str]]:
    """`Entity` of each word by number, and of each empty node without one, in the order of the lines."""
    empty = list(sentence.empty)
    for number, word in enumerate(sentence.words):
        while empty and empty[0][0] <= number:
            yield None, empty.pop(0)[1]
        yield number, word.misc.get("Entity", "")
    yield from ((None, value) for _, value in empty)


class _Brackets:
    """Reads the brackets of a document, word by word."""

    def __init__(self, names: list[str], document: str) -> None:
        self._names = names
        self._document = document
        self._open: dict[tuple[str, int], list[_Open]] = {}
        self._pieces: dict[str, list[tuple[list[int], Sequence[str]]]] = {}
        self._empty = 0
        self.found: list[tuple[tuple[int, ...], str, dict[str, str]]] = []
        """Words (below 0 for empty nodes), chain and fields of each mention."""

    def read(self, word: int | None, value: str, sentence: Sentence) -> None:
        if word is None:
            self._empty -= 1
            word = self._empty
        begun: list[tuple[str, int]] = []
        at = 0
        ended: list[tuple[str, int]] = []
        for item in _ITEM.finditer(value):
            if item.start() != at:
                break
            at = item.end()
            key, of, fields = self._parts(item["opened"] or item["closed"])
            if item["opened"] is not None:
                self._open.setdefault(key, []).append(_Open(fields, key[1], of))
                begun.append(key)
            if item["opened"] is None or item["alone"] is not None:
                ended.append(key)
        if at != len(value):
            raise self._wrong(f"{value[:60]!r} in sentence {sentence.name}")
        for stack in self._open.values():
            for one in stack:
                one.words.append(word)
        for key in ended:
            if not self._open.get(key):
                raise self._wrong(f"an end of {key[0]!r} that never began, in sentence {sentence.name}")
            self._end(key[0], self._open[key].pop())

    def _parts(self, text: str) -> tuple[tuple[str, int], int, list[str]]:
        fields = text.split("-", max(len(self._names) - 1, 0))
        piece = _PIECE.fullmatch(fields[0])
        if piece is None:
            return (fields[0], 1), 1, fields
        return (piece["chain"], int(piece["number"])), int(piece["of"]), fields

    def _end(self, chain: str, one: _Open) -> None:
        held = self._pieces.setdefault(chain, [])
        held.append((one.words, one.fields))
        if one.number < one.of:
            return
        taken, self._pieces[chain] = held[-one.of :], held[: -one.of]
        words = tuple(dict.fromkeys(word for own, _ in taken for word in own))
        self.found.append((words, chain, dict(zip(self._names, taken[0][1], strict=False))))

    def check_closed(self) -> None:
        for (chain, _), stack in self._open.items():
            if stack:
                raise self._wrong(f"a mention of {chain!r} without its end")
        for chain, held in self._pieces.items():
            if held:
                raise self._wrong(f"a mention of {chain!r} without its last piece")

    def _wrong(self, got: str) -> InputError:
        return InputError("coreference", expected=f"brackets of Entity that fit together in {self._document}", got=got)


def _mention(own: tuple[int, ...], chain: str, fields: dict[str, str], words: list[Any]) -> Mention:
    stated = fields.get("minspan") or fields.get("head") or ""
    numbers = [int(number) for number in stated.split(",") if number.isdigit()]
    said = tuple(word for word in own if word >= 0)
    span = [own[number - 1] for number in numbers if 0 < number <= len(own) and own[number - 1] >= 0] or list(said)
    head = next((word for word in span if _governor(word, words) not in span), span[-1])
    _, sentence, number = words[head]
    word = sentence.words[number]
    kind = {"PRON": "pronoun", "PROPN": "proper"}.get(word.pos, "nominal")
    return Mention(said, head, chain, kind, word.form.casefold())


def _governor(word: int, words: list[Any]) -> int:
    """The word that governs this one, by number in the document; −1 for the root, and without a tree."""
    start, sentence, number = words[word]
    head = sentence.words[number].head
    return -1 if head in (None, ROOT) else start + head
