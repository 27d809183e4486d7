"""Heads that copy: repeated random tokens over several lengths and seeds, and what a model loses without such heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from heedmap.capture.ablation import ablate
from heedmap.capture.known import Known
from heedmap.capture.models import LoadedModel
from heedmap.capture.views import reader_of
from heedmap.capture.watch import Seen, watch
from heedmap.errors import InputError
from heedmap.experiments.induction import STATISTICS, head_means, random_twice
from heedmap.experiments.intervals import Interval, student
from heedmap.heads.evidence import hides_ahead
from heedmap.heads.types import TYPES

WHERE = "induction"
LENGTHS = (32, 64, 128)
DRAWS = 5
Head = tuple[int, int]
Tell = Callable[[str, int, int], None]


def _quiet(stage: str, done: int, total: int) -> None:
    """No progress is told."""


@dataclass(frozen=True)
class Copying:
    """What one pass over all sequences found.

    Attributes:
        lengths: random tokens of one half, one entry a set of sequences.
        draws: sequences of each length; draw i has the seed `seed` + i at every length.
        heads: (part, layer, head) of each head.
        values: type of head → `[lengths, draws, heads]`.
        losses: for each length the cross-entropy of each random token in nats, `[draws, 2 · length]`, NaN for a first
            one that nothing stands before; None where the model predicts no next token.
    """

    lengths: tuple[int, ...]
    draws: int
    seed: int
    heads: list[tuple[str, int, int]]
    values: dict[str, np.ndarray]
    losses: list[np.ndarray] | None

    def score(self, kind: str, index: int) -> Interval:
        """One head's mean over lengths, with its interval over draws."""
        return student(self.values[kind][:, :, index].mean(0))

    def means(self, kind: str) -> np.ndarray:
        """The mean over lengths and draws, `[heads]`."""
        return self.values[kind].mean((0, 1))

    def halves(self) -> np.ndarray | None:
        """Mean loss of the first and the second copy, without the first token of each: `[lengths, draws, 2]`, nats."""
        if self.losses is None:
            return None
        return np.stack([
            np.stack([table[:, 1:length].mean(1), table[:, length + 1 :].mean(1)], -1)
            for length, table in zip(self.lengths, self.losses, strict=True)
        ])  # fmt: skip

    def strongest(self, count: int) -> list[Head]:
        """The heads with the highest induction score."""
        order = np.argsort(-self.means("induction"), kind="stable")[:count]
        return [self.heads[index][1:] for index in order]


@dataclass(frozen=True)
class Silenced:
    """What happened with some heads zeroed: `name` says which, `found` is measured on the same sequences."""

    name: str
    heads: list[Head]
    found: Copying
    control: bool = False


@dataclass
class Study:
    """A model with all its heads, and without some; it grows while it is made, so that an interruption keeps that.

    Attributes:
        model, revision: which.
        intact: the model as it is; None before that is measured.
        silenced: one entry for each set of heads that was zeroed.
        planned: how many such sets there will be.
        why_no_loss: why there is no loss; "" where there is.
    """

    model: str
    revision: str | None
    intact: Copying | None = None
    silenced: list[Silenced] = field(default_factory=list)
    planned: int = 0
    why_no_loss: str = ""


def study_copying(
    loaded: LoadedModel,
    *,
    lengths: Sequence[int] = LENGTHS,
    draws: int = DRAWS,
    seed: int = 0,
    silence: Sequence[Head] = (),
    strongest: int = 0,
    tell: Tell = _quiet,
    into: Study | None = None,
) -> Study:
    """Measure how heads copy on random tokens run twice over, and what zeroing some of them changes.

        induction = mean over the second copy of the weight on the token after the earlier occurrence
        loss drop = mean loss of the first copy − mean loss of the second one (without the first token of each)

    Heads are zeroed one at a time, then all together, then as many others, drawn from those below the bar of
    `induction`, to compare with. Every set reads the same sequences. No weight of the model is touched.

    Args:
        loaded: a model with its tokenizer; of an encoder–decoder the encoder is measured.
        lengths: tokens of one half, several.
        draws: sequences of each length.
        seed: of the first draw, and of the heads that are drawn to compare with.
        silence: heads to zero as (layer, head).
        strongest: zero this many heads with the highest induction score, in place of `silence`.
        tell: told of progress: "read", sequences done, and of how many.
        into: filled as measuring goes on, and returned.

    Raises:
        InputError: lengths or heads that the model does not have, both ways to name heads.
        UnsupportedError: a model that cannot be watched, or that reads no text.

    Source: Olsson et al. 2022 (prefix matching, in-context loss, ablation of heads); Elhage et al. 2021.
    """
    if silence and strongest:
        raise InputError(WHERE, expected="heads by name, or the strongest ones", got="both")
    study = Study(loaded.name, loaded.revision) if into is None else into
    study.planned = _planned(len(silence) or strongest)
    total = (1 + study.planned) * len(lengths) * draws
    reader = _Reader(loaded, tuple(lengths), draws, seed, lambda done: tell("read", done, total))
    study.intact = intact = reader.read([])
    study.why_no_loss = reader.why_no_loss
    chosen = list(silence) or intact.strongest(strongest)
    for head in chosen:
        study.silenced.append(Silenced(f"{head[0]}.{head[1]}", [head], reader.read([head])))
    if len(chosen) > 1:
        study.silenced.append(Silenced(f"these {len(chosen)}", chosen, reader.read(chosen)))
    others = _others(intact, chosen, seed)
    if chosen and others:
        name = f"{len(others)} other" + ("s" if len(others) > 1 else "")
        study.silenced.append(Silenced(name, others, reader.read(others), control=True))
    study.planned = len(study.silenced)
    return study


def _planned(chosen: int) -> int:
    return chosen + (chosen > 1) + (chosen > 0)


def _others(intact: Copying, chosen: list[Head], seed: int) -> list[Head]:
    """As many heads, drawn from those that are no induction heads."""
    scores = intact.means("induction")
    free = [head[1:] for head, score in zip(intact.heads, scores, strict=True)
            if head[1:] not in chosen and not TYPES["induction"].holds(float(score))]  # fmt: skip
    drawn = np.random.default_rng(seed).permutation(len(free))[: len(chosen)]
    return sorted(free[index] for index in drawn)


class _Reader:
    """Runs all sequences through a model, with some heads zeroed."""

    def __init__(
        self, loaded: LoadedModel, lengths: tuple[int, ...], draws: int, seed: int, tell: Callable[[int], None]
    ) -> None:
        if not lengths or min(lengths) < 2 or len(set(lengths)) != len(lengths):
            raise InputError(WHERE, expected="different lengths of 2 or more tokens", got=f"{list(lengths)}")
        self._lengths, self._draws, self._seed, self._tell, self._done = lengths, draws, seed, tell, 0
        self._model = loaded.model
        self._body: nn.Module = reader_of(loaded.model, {}, decoding=False)
        predicts = loaded.model.can_generate() and not getattr(loaded.model.config, "is_encoder_decoder", False)
        self.why_no_loss = "" if predicts else f"{type(loaded.model).__name__} predicts no next token"
        self._sequences = {
            length: random_twice(loaded.model, loaded.tokenizer, length, draws, seed) for length in lengths
        }

    @torch.no_grad()
    def read(self, silent: list[Head]) -> Copying:
        """All sequences once."""
        values: dict[str, list[list[np.ndarray]]] = {name: [] for name in STATISTICS}
        losses: list[np.ndarray] = []
        heads: list[tuple[str, int, int]] = []
        for length in self._lengths:
            for name in STATISTICS:
                values[name].append([])
            own: list[np.ndarray] = []
            for ids in self._sequences[length]:
                seen, logits = self._run(ids, silent)
                heads = [(call.part, call.layer, head) for call in seen.calls for head in call.heads]
                for name, statistic in STATISTICS.items():
                    values[name][-1].append(head_means(call.measurements[statistic][0] for call in seen.calls))
                if logits is not None and not self.why_no_loss:
                    own.append(_losses(logits, ids, 2 * length))
                self._done += 1
                self._tell(self._done)
            losses.append(np.stack(own) if own else np.zeros((0, 0)))
        tables = {name: np.array(rows) for name, rows in values.items()}
        return Copying(self._lengths, self._draws, self._seed, heads, tables, None if self.why_no_loss else losses)

    def _run(self, ids: Tensor, silent: list[Head]) -> tuple[Seen, Tensor | None]:
        """What one sequence's attention was, and the logits of each token where the model has some."""
        runs = self._body if self.why_no_loss else self._model
        device = next(self._model.parameters()).device
        quiet = ablate(runs, silent) if silent else nullcontext()
        with quiet, watch(runs, list(STATISTICS.values()), known=Known(ids[None])) as seen:
            output = runs(input_ids=ids[None].to(device))
        if not self.why_no_loss and not all(hides_ahead(call.formula.mask) for call in seen.calls):
            self.why_no_loss = f"{type(self._model).__name__} sees the tokens that it would predict"
        return seen, None if self.why_no_loss else output.logits[0]


def _losses(logits: Tensor, ids: Tensor, tokens: int) -> np.ndarray:
    """Cross-entropy of the last `tokens` tokens of a sequence, nats."""
    found = torch.nn.functional.cross_entropy(logits[:-1].float(), ids[1:].to(logits.device), reduction="none")
    padded = np.concatenate([[np.nan], found.double().cpu().numpy()])
    return padded[len(padded) - tokens :]


def change(before: Copying, after: Copying) -> tuple[Interval, Interval]:
    """How much more the second copy costs, and how much of the loss drop is gone: nats, over draws.

    Raises:
        InputError: a model without loss.
    """
    first, second = before.halves(), after.halves()
    if first is None or second is None:
        raise InputError(WHERE, expected="a model that predicts the next token", got="one without loss")
    cost = (second - first)[..., 1].mean(0)
    drop = ((second[..., 0] - second[..., 1]) - (first[..., 0] - first[..., 1])).mean(0)
    return student(cost), student(drop)


def most_changed(
    before: Copying, after: Copying, silent: Iterable[Head], kind: str = "induction", count: int = 3
) -> list[tuple[tuple[str, int, int], float]]:
    """The other heads whose score moved most, with by how much."""
    moved = after.means(kind) - before.means(kind)
    left_out = set(silent)
    order = [index for index in np.argsort(-np.abs(moved), kind="stable") if before.heads[index][1:] not in left_out]
    return [(before.heads[index], float(moved[index])) for index in order[:count]]
