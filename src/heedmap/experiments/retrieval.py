"""Which heads fetch a needle from a haystack while a model answers, measured during its own `generate()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from heedmap.capture.models import LoadedModel
from heedmap.capture.positions import positions_of
from heedmap.capture.views import check_generates, generate
from heedmap.capture.watch import Seen, watch
from heedmap.errors import InputError, UnsupportedError
from heedmap.experiments.haystack import NEEDLES, WHERE, Haystack, Needle
from heedmap.heads.retrieval import Trial, retrieval_scores, word_recall

Tell = Callable[[str, int, int], None]
LENGTHS = (512, 1024)
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
SPARE = 12
"""Tokens that an answer may have beyond the needle's."""


def _quiet(stage: str, done: int, total: int) -> None:
    """No progress is told."""


@dataclass
class Retrieval:
    """Trials with one model; grows while it is made, so that an interruption keeps what is there.

    Attributes:
        model, revision: which.
        needles: what was hidden.
        chat: whether prompts went through the model's chat template.
        heads: (part, layer, head) of each head.
        trials: one for each needle, length and depth.
        planned: how many there will be.
    """

    model: str
    revision: str | None
    needles: tuple[Needle, ...] = ()
    chat: bool = False
    heads: list[tuple[str, int, int]] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    planned: int = 0


def find_retrieval(
    loaded: LoadedModel,
    text: str,
    *,
    lengths: Sequence[int] = LENGTHS,
    depths: Sequence[float] = DEPTHS,
    needles: Sequence[Needle] = NEEDLES,
    tell: Tell = _quiet,
    into: Retrieval | None = None,
) -> Retrieval:
    """Hide each needle at each depth in a text of each length, ask for it, and score every head during the answer.

        score = share of the needle's tokens that the model produced while the head's largest weight lay on that token

    The model generates with its most likely tokens, as many as the needle has and a few more. Each forward pass is
    measured as it is made and only the largest weight's key is kept: memory is linear in the length. A model with a
    chat template is asked through it.

    Args:
        loaded: a model that generates, with a tokenizer that tells offsets.
        text: the haystack.
        lengths: tokens of prompt and answer together.
        depths: where the needle stands, 0 to 1; the end of the nearest sentence is taken.
        needles: sentences with their questions.
        tell: told of progress: "read", trials done, and of how many.
        into: filled as measuring goes on, and returned.

    Raises:
        InputError: lengths beyond the model's positions or the haystack, too short for a question, or a depth that is
            none.
        UnsupportedError: a model that generates nothing, or an encoder–decoder.

    Source: Wu et al. 2024, §2.
    """
    found = Retrieval(loaded.name, loaded.revision) if into is None else into
    _check(loaded, lengths, depths, needles)
    hay = Haystack(loaded.tokenizer, text)
    found.needles, found.chat = tuple(needles), hay.chat
    plan = [(length, depth, index) for length in sorted(lengths) for depth in depths for index in range(len(needles))]
    found.planned = len(plan)
    answers = [len(_ids(loaded, needle.needle)) + SPARE for needle in needles]
    prompts = [  # all of them before the first runs, so that what does not fit is refused at once
        hay.prompt(needles[index], length - answers[index], depth) for length, depth, index in plan
    ]
    tell("read", 0, len(plan))
    for done, ((length, depth, index), prompt) in enumerate(zip(plan, prompts, strict=True)):
        ids = torch.tensor([prompt.ids])
        with watch(loaded.model, ["argmax"], passes="apart") as seen:
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            whole = generate(loaded.model, inputs, answers[index], lambda *_: None)
        heads, top = _largest(seen, len(whole) - len(prompt.ids))
        found.heads = found.heads or heads
        produced = whole[len(prompt.ids) :].cpu()
        said = str(loaded.tokenizer.decode(produced, skip_special_tokens=True))
        scores = retrieval_scores(np.array(prompt.ids[prompt.start : prompt.stop]), prompt.start, produced.numpy(), top)
        found.trials.append(
            Trial(index, length, len(prompt.ids), depth, prompt.depth, prompt.start, prompt.stop, said.strip(),
                  word_recall(needles[index].wanted, said), scores)
        )  # fmt: skip
        tell("read", done + 1, len(plan))
    return found


def _largest(seen: Seen, steps: int) -> tuple[list[tuple[str, int, int]], np.ndarray]:
    """The heads, and the key of the largest weight in the last row of each pass, text positions `[steps, heads]`."""
    passes: dict[int, list[np.ndarray]] = {}
    heads: dict[int, list[tuple[str, int, int]]] = {}
    for call in seen.calls:
        passes.setdefault(call.forward, []).append(call.measurements["argmax"][0, :, -1])
        heads.setdefault(call.forward, []).extend((call.part, call.layer, head) for head in call.heads)
    if len(passes) != steps:
        raise UnsupportedError(
            WHERE,
            expected="a forward pass for each token that is generated",
            got=f"{len(passes)} for {steps}",
            do="take a model that generates one token at a time",
        )
    first = next(iter(heads.values()))
    return first, np.stack([np.concatenate(rows) for rows in passes.values()])


def _ids(loaded: LoadedModel, text: str) -> list[int]:
    return list(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])


def _check(loaded: LoadedModel, lengths: Sequence[int], depths: Sequence[float], needles: Sequence[Needle]) -> None:
    model = loaded.model
    check_generates(model, 0, 1)
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedError(
            WHERE,
            expected="a model that reads and answers in one text",
            got=f"{type(model).__name__}, an encoder–decoder",
            do="its decoder reads the text by cross-attention: heedmap look --generate, then heedmap spans",
        )
    positions = positions_of(model.config)
    if not lengths or not depths or not needles:
        raise InputError(WHERE, expected="a length, a depth and a needle at least", got="none")
    if positions is not None and max(lengths) > positions:
        raise InputError(
            WHERE, expected=f"lengths up to {positions:,}, the positions of this model", got=f"{max(lengths):,}"
        )
    if not all(0 <= depth <= 1 for depth in depths):
        raise InputError(WHERE, expected="depths from 0 to 1", got=f"{list(depths)}")
