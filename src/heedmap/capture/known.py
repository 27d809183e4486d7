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
class Known:
    """Facts about tokens by text position, which statistics of copies, spans and classes ask for.

    Attributes:
        token_ids: integers `[batch or 1, tokens]`, or None.
        spans, classes: named sets of tokens, bool `[batch or 1, tokens]` each.
    """

    token_ids: Tensor | None = None
    spans: Mapping[str, Tensor] = field(default_factory=dict)
    classes: Mapping[str, Tensor] = field(default_factory=dict)

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

    def of_keys(self, batch: int, key_offset: int, key_len: int) -> dict[str, Any]:
        """The facts of one call's keys, as `AttentionInputs` takes them.

        Keys beyond the text (tokens that were generated since) belong to no set and are no copies of one another.

        Raises:
            InputError: facts about another number of texts than the call has.
        """
        unknown = -1 - torch.arange(key_offset, key_offset + key_len)
        facts: dict[str, Any] = {}
        if self.token_ids is not None:
            facts["token_ids"] = _window(self.token_ids, batch, key_offset, unknown)
        for what, sets in (("spans", self.spans), ("classes", self.classes)):
            nowhere = torch.zeros(key_len, dtype=torch.bool)
            facts[what] = {name: _window(table, batch, key_offset, nowhere) for name, table in sets.items()}
        return facts


def _window(table: Tensor, batch: int, start: int, beyond: Tensor) -> Tensor:
    """Columns `[start, start + len(beyond))` of a table, with `beyond` where it has none; `[batch, keys]`."""
    if table.shape[0] not in (1, batch):
        raise InputError(
            "watch", expected=f"token_ids, spans and classes of {batch} texts", got=f"those of {table.shape[0]}"
        )
    inside = table[:, start : start + len(beyond)].to(beyond.dtype)
    rest = beyond.to(inside.device)[None, inside.shape[1] :].expand(inside.shape[0], -1)
    return torch.cat([inside, rest], dim=1).expand(batch, -1)
