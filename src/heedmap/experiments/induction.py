"""The induction probe: random tokens twice over, on which only a head that copies can know what comes next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from heedmap.capture.known import Known
from heedmap.capture.models import LoadedModel
from heedmap.capture.positions import positions_of
from heedmap.capture.views import reader_of
from heedmap.capture.watch import watch
from heedmap.errors import InputError
from heedmap.heads.types import Typing, judge

STATISTICS = {
    "induction": "induction",
    "duplicate": "duplicate",
    "previous": "previous",
    "next": "next",
    "self": "self",
    "first": "first_token",
}
"""Type of head → the statistic whose mean over rows speaks for it."""
WHERE = "induction probe"
COMMON = (100, 40_000)
"""Token numbers to draw from."""
UNUSED = ("[unused", "<unused")
"""How names of tokens begin that no text ever had (BERT's, Gemma's), which a model has learned nothing about."""


@dataclass(frozen=True)
class Probe:
    """What a probe found.

    Attributes:
        model: the model's name.
        length: random tokens of one half; the model read the beginning token (where it has one) and both halves.
        draws: sequences; each value is the mean over them.
        seed: of the random tokens.
        tokens: tokens of one sequence.
        heads: (part, layer, head) of each head.
        values: type → `[draws, heads]`.
    """

    model: str
    length: int
    draws: int
    seed: int
    tokens: int
    heads: list[tuple[str, int, int]]
    values: dict[str, np.ndarray]

    @property
    def means(self) -> dict[str, np.ndarray]:
        """Type → the mean over draws, `[heads]`."""
        return {name: table.mean(0) for name, table in self.values.items()}

    def typing(self) -> Typing:
        """The heads with the types that random tokens can tell."""
        return judge(self.heads, self.means)

    @property
    def on_first(self) -> int:
        """Heads that put over half of their mass on the first token."""
        return int((self.means["first"] > 0.5).sum())


@torch.no_grad()
def probe_induction(loaded: LoadedModel, *, length: int = 64, draws: int = 1, seed: int = 0) -> Probe:
    """Run random tokens twice over and measure where each head looks in the second half.

        induction = mean over the second half of the weight on the token after the earlier copy
        duplicate = mean over the second half of the weight on the earlier copy

    Tokens are drawn independently from the ordinary ones of the vocabulary, and stand behind the tokenizer's beginning
    token, where it has one; draw number i has the seed `seed` + i.

    Source: Olsson et al. 2022 (prefix matching on repeated random tokens).

    Args:
        loaded: a model with its tokenizer; of an encoder–decoder the encoder is probed.
        length: tokens of one half.
        draws: how many sequences, run one after another.
        seed: of the draws.

    Raises:
        InputError: more tokens than the model has positions, or a vocabulary without ordinary tokens.
        UnsupportedError: a model that cannot be watched, or that reads no text.
    """
    body = reader_of(loaded.model, {}, decoding=False)
    sequences = random_twice(loaded.model, loaded.tokenizer, length, draws, seed)
    rows: dict[str, list[np.ndarray]] = {name: [] for name in STATISTICS}
    heads: list[tuple[str, int, int]] = []
    device = next(loaded.model.parameters()).device
    for ids in sequences:
        with watch(body, list(STATISTICS.values()), known=Known(ids[None])) as seen:
            body(input_ids=ids[None].to(device))
        heads = [(call.part, call.layer, head) for call in seen.calls for head in call.heads]
        for name, statistic in STATISTICS.items():
            rows[name].append(head_means(call.measurements[statistic][0] for call in seen.calls))
    values = {name: np.stack(found) for name, found in rows.items()}
    return Probe(loaded.name, length, draws, seed, sequences.shape[1], heads, values)


def head_means(tables: Iterable[np.ndarray]) -> np.ndarray:
    """The mean of each head over its rows that say something, `[heads]`; NaN where none does."""
    means = []
    for table in tables:
        said = np.isfinite(table)
        count = said.sum(-1)
        total = np.where(said, table.astype(np.float64), 0.0).sum(-1)
        means.append(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))
    return np.concatenate(means)


def random_twice(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, length: int, draws: int, seed: int
) -> Tensor:
    """Random tokens twice over, behind the beginning token where there is one: int64 `[draws, tokens]`.

    Raises:
        InputError: more tokens than the model has positions, or a vocabulary without ordinary tokens.
    """
    first = next((token for token in (tokenizer.bos_token_id, tokenizer.cls_token_id) if token is not None), None)
    begin = torch.tensor([] if first is None else [first], dtype=torch.int64)
    tokens, positions = 2 * length + len(begin), positions_of(model.config)
    if positions is not None and tokens > positions:
        raise InputError(
            WHERE,
            expected=f"at most {positions} tokens, the positions of this model",
            got=f"{tokens}",
            do=f"take a length of {(positions - len(begin)) // 2} or less",
        )
    ordinary = _ordinary(model, tokenizer)
    found = []
    for draw in range(draws):
        random = torch.Generator().manual_seed(seed + draw)
        half = ordinary[torch.randint(0, len(ordinary), (length,), generator=random)]
        found.append(torch.cat([begin, half, half]))
    return torch.stack(found)


def _ordinary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """Tokens to draw from: where the vocabulary is large, without its first hundred (roles, bytes) and rarest ones."""
    vocabulary = min(model.config.get_text_config().vocab_size, len(tokenizer))
    low, high = COMMON if vocabulary >= 2 * COMMON[0] else (0, vocabulary)
    candidates = range(low, min(high, vocabulary))
    names = tokenizer.convert_ids_to_tokens(list(candidates))
    left_out = set(tokenizer.all_special_ids)
    kept = [
        token
        for token, name in zip(candidates, names, strict=True)
        if token not in left_out and not str(name).startswith(UNUSED)
    ]
    if not kept:
        raise InputError(WHERE, expected="a vocabulary with ordinary tokens", got="special ones only")
    return torch.tensor(kept)
