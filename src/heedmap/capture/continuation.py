"""Tokens that no tokenizer cut from a text: those that a model wrote, and the one that a decoder starts with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heedmap.capture.labels import labels, readable
from heedmap.capture.spans import place
from heedmap.capture.surfaces import Vocabulary
from heedmap.capture.tokens import Tokens
from heedmap.capture.words import token_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def continued(tokens: Tokens, tokenizer: PreTrainedTokenizerBase, new: list[int]) -> Tokens:
    """A text with what a model added to it: its text is longer by what the new tokens say."""
    added = written(tokenizer, new)
    before = len(tokens.text)
    spans = [
        *zip(tokens.start, tokens.end, strict=True),
        *((start + before, end + before) if start >= 0 else (-1, -1) for start, end in
          zip(added.start, added.end, strict=True)),
    ]  # fmt: skip
    text = tokens.text + added.text
    special = tokens.special + added.special
    visible = [span if span[0] >= 0 and not mark else None for span, mark in zip(spans, special, strict=True)]
    return replace(
        tokens,
        text=text,
        ids=tokens.ids + added.ids,
        labels=tokens.labels + added.labels,
        start=[start for start, _ in spans],
        end=[end for _, end in spans],
        word=token_words(text, visible),
        special=special,
        segment=tokens.segment + added.segment,
    )


def written(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> Tokens:
    """Tokens that a model wrote, and the text that they say; special tokens say none of it."""
    known = Vocabulary(tokenizer)
    marks = [index in known.special for index in ids]
    own = [place for place, mark in enumerate(marks) if not mark]
    says = known.surfaces(ids[place] for place in own)
    text = b"".join(says).decode("utf-8", "replace").replace("\0", "\ufffd")
    placed = place(text, None, says, [ids[at] == known.unknown for at in own])
    spans: list[tuple[int, int]] = [(-1, -1)] * len(ids)
    shown = [readable(known.name(index)) if mark else "" for index, mark in zip(ids, marks, strict=True)]
    for at, span, label in zip(own, placed.spans, labels(text, placed, says), strict=True):
        spans[at] = (-1, -1) if span is None else span
        shown[at] = label
    visible = [span if span[0] >= 0 else None for span in spans]
    return Tokens(
        text=text,
        ids=ids,
        labels=shown,
        start=[start for start, _ in spans],
        end=[end for _, end in spans],
        word=token_words(text, visible),
        special=marks,
        segment=[0] * len(ids),
    )


@dataclass(frozen=True)
class Reading:
    """All tokens of a look: the text's, and those of the decoder's text where there is one."""

    source: Tokens
    target: Tokens | None = None
    prompt: int = 0
    """How many tokens of the last text were given; the others were generated. 0: none were."""

    @property
    def last(self) -> Tokens:
        return self.source if self.target is None else self.target

    def columns(self) -> dict[str, list[Any]]:
        """The columns of `tokens.parquet`."""
        columns = _columns(self.source)
        if self.target is not None:
            target = _columns(self.target) | {"segment": [1] * len(self.target)}
            sequence = ["text"] * len(self.source) + ["target"] * len(self.target)
            columns = {name: values + target[name] for name, values in columns.items()} | {"sequence": sequence}
        total = len(columns["id"])
        if self.prompt:
            given = total - len(self.last) + self.prompt
            columns["generated"] = [place >= given for place in range(total)]
        if self.prompt or self.target is not None:
            columns["unread"] = [place == total - 1 for place in range(total)]
        return columns

    def meta(self) -> dict[str, Any]:
        """What `run.json` says about the text."""
        meta: dict[str, Any] = {"tokens": len(self.source), "truncated_from": self.source.truncated_from}
        if self.target is not None:
            meta["target_tokens"] = len(self.target)
        if self.prompt:
            meta["generated"] = len(self.last) - self.prompt
        return meta


def begun(tokens: Tokens, tokenizer: PreTrainedTokenizerBase, start: int) -> Tokens:
    """The text that a decoder is to write, behind the token that it starts with."""
    if tokens.ids[0] == start:
        return tokens
    name = Vocabulary(tokenizer).name(start)
    return replace(
        tokens,
        ids=[start, *tokens.ids],
        labels=[readable(name), *tokens.labels],
        start=[-1, *tokens.start],
        end=[-1, *tokens.end],
        word=[-1, *tokens.word],
        special=[True, *tokens.special],
        segment=[0, *tokens.segment],
    )


def _columns(tokens: Tokens) -> dict[str, list[Any]]:
    return {
        "position": list(range(len(tokens))),
        "id": tokens.ids,
        "text": tokens.labels,
        "start": tokens.start,
        "end": tokens.end,
        "word": tokens.word,
        "special": tokens.special,
        "segment": tokens.segment,
    }
