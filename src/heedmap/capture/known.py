"""What is known of a text's tokens beside the model: which token each is, and the named sets that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from heedmap.capture.tokens import Tokens
from heedmap.errors import InputError
from heedmap.runs.kinds import kinds_of


@dataclass(frozen=True)
class Generated:
    """The texts that a `generate()` returned, as the keys of its layers.

    Attributes:
        token_ids: int64 `[texts, tokens]`.
        owners: which of the inputs each text goes on from.
        origin: text position of the first of `token_ids`; not 0 where a cache held keys before.
    """

    token_ids: Tensor
    owners: list[int]
    origin: int = 0


@dataclass(frozen=True)
class Known:
    """Facts about tokens by text position, which statistics of copies, spans, classes and parts ask for.

    They are facts about the text that the model reads; of an encoder–decoder about that of its encoder, which
    cross-attention reads too, and those of the decoder's text are `target`.

    Attributes:
        token_ids: integers `[batch or 1, tokens]`, or None.
        spans, classes: named sets of tokens, bool `[batch or 1, tokens]` each.
        parts: how much of each token belongs to each of some parts of the text, `[batch or 1, tokens, parts]`, or None.
        target: what is known of the text that a decoder beside an encoder reads.
    """

    token_ids: Tensor | None = None
    spans: Mapping[str, Tensor] = field(default_factory=dict)
    classes: Mapping[str, Tensor] = field(default_factory=dict)
    target: Known | None = None
    parts: Tensor | None = None

    @classmethod
    def of_tokens(cls, tokens: Tokens, spans: Mapping[str, list[bool]] | None = None) -> Known:
        """What the tokens of one text say: their ids, special tokens and punctuation, and the spans that were named."""
        texts = [tokens.text, tokens.text_pair or ""]
        classes = kinds_of(tokens.special, tokens.segment, tokens.start, tokens.end, texts)
        return cls(
            torch.tensor([tokens.ids]),
            {name: torch.tensor([marks]) for name, marks in (spans or {}).items()},
            {name: torch.tensor([marks]) for name, marks in classes.items()},
        )

    def of_texts(self, generated: Generated, *, cross: bool) -> Known:
        """What is known of the keys of the texts that a `generate()` returned, each of them a row.

        Sets of the inputs' tokens are those of every text that goes on from the input. Token ids are those of the
        returned texts, but in cross-attention, whose keys stay the inputs'.

        Raises:
            InputError: facts about another number of texts than there were inputs.
        """
        own = self.token_ids
        if not cross:
            ids, before = generated.token_ids, generated.origin
            earlier = (-1 - torch.arange(before))[None].expand(len(ids), -1)
            if own is not None and own.shape[1] >= before:
                earlier = _of_owners(own, generated.owners)[:, :before].to(ids).expand(len(ids), -1)
            own = torch.cat([earlier, ids], dim=1)
        return Known(
            own,
            {name: _of_owners(table, generated.owners) for name, table in self.spans.items()},
            {name: _of_owners(table, generated.owners) for name, table in self.classes.items()},
            parts=None if self.parts is None else _of_owners(self.parts, generated.owners),
        )

    def of_keys(self, batch: int, key_offset: int, key_len: int, *, cross: bool = False) -> dict[str, Any]:
        """The facts of one call's keys, as `AttentionInputs` takes them.

        Keys beyond the text (tokens that were generated since) belong to no set or part and are no copies of one
        another. In cross-attention keys are no copies of queries, which are another text's: there are no token ids.

        Raises:
            InputError: facts about another number of texts than the call has.
        """
        unknown = -1 - torch.arange(key_offset, key_offset + key_len)
        facts: dict[str, Any] = {}
        if self.token_ids is not None and not cross:
            facts["token_ids"] = _window(self.token_ids, batch, key_offset, unknown)
        for what, sets in (("spans", self.spans), ("classes", self.classes)):
            nowhere = torch.zeros(key_len, dtype=torch.bool)
            facts[what] = {name: _window(table, batch, key_offset, nowhere) for name, table in sets.items()}
        if self.parts is not None:
            one = self.parts.shape[0] == 1  # the same for all texts: told once
            nothing = torch.zeros(key_len, self.parts.shape[-1], dtype=self.parts.dtype)
            facts["parts"] = _window(self.parts, 1 if one else batch, key_offset, nothing)
        return facts


def _of_owners(table: Tensor, owners: list[int]) -> Tensor:
    """The row of each text's input, or the only row there is."""
    if table.shape[0] == 1:
        return table
    _check_texts(table, max(owners) + 1)
    return table[owners]


def _check_texts(table: Tensor, texts: int) -> None:
    if table.shape[0] not in (1, texts):
        raise InputError(
            "watch", expected=f"token_ids, spans, classes and parts of {texts} texts", got=f"those of {table.shape[0]}"
        )


def _window(table: Tensor, batch: int, start: int, beyond: Tensor) -> Tensor:
    """Columns `[start, start + len(beyond))` of a table, with `beyond` where it has none; `[batch, keys, …]`."""
    _check_texts(table, batch)
    inside = table[:, start : start + len(beyond)].to(beyond.dtype)
    if inside.shape[1] == len(beyond):
        return inside.expand(batch, *beyond.shape)
    rest = beyond.to(inside.device)[None, inside.shape[1] :].expand(inside.shape[0], *(-1,) * beyond.dim())
    return torch.cat([inside, rest], dim=1).expand(batch, *beyond.shape)
