"""A model over a treebank: which heads follow which relations, from the exact weights between words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from heedmap.capture.models import LoadedModel
from heedmap.capture.positions import positions_of
from heedmap.errors import InputError
from heedmap.experiments.word_weights import Grouped, group_weights, read_text
from heedmap.heads.syntax import Arc, Lost, Relation, Tally, arcs_of
from heedmap.heads.trees import Sentence
from heedmap.heads.units import Units, align, spans_of

Progress = Callable[[str, int, int], None]


def quiet(stage: str, done: int, total: int) -> None:
    """No progress is told."""


@dataclass
class Counts:
    """What was read and what was left out, for the table to state."""

    sentences: int = 0
    words: int = 0
    without_tree: int = 0
    without_tokens: int = 0
    too_long: int = 0
    words_sharing_a_token: int = 0
    words_without_token: int = 0
    texts_put_together: int = 0
    lost: Lost = field(default_factory=Lost)

    def entries(self) -> dict[str, str | int | float]:
        """Name → number, those that are not 0."""
        found = {
            "words": self.words,
            "sentences without a tree": self.without_tree,
            "sentences that cannot be tokenised": self.without_tokens,
            "sentences over the model's length": self.too_long,
            "words that share a token": self.words_sharing_a_token,
            "words without a token": self.words_without_token,
            "arcs left out, shared token": self.lost.sharing_a_token,
            "arcs left out, no token": self.lost.without_token,
            "sentences put together from words": self.texts_put_together,
        }
        return {name: count for name, count in found.items() if count}


@dataclass(frozen=True)
class Prepared:
    """One sentence with its units and arcs, ready to be run."""

    sentence: Sentence
    units: Units
    arcs: list[Arc]
    text: Grouped


@dataclass(frozen=True)
class SyntaxFound:
    """What a model's heads do on a treebank.

    Attributes:
        relations: the one with most arcs first.
        counts: what was read and left out.
        arcs: how many were scored.
        causal: whether no word saw a later one.
        prepared: the sentences that were run.
    """

    relations: list[Relation]
    counts: Counts
    arcs: int
    causal: bool
    prepared: Sequence[Prepared]


def measure_syntax(
    loaded: LoadedModel, sentences: Iterable[Sentence], *, seed: int = 0, tell: Progress = quiet
) -> SyntaxFound:
    """Run a treebank through a model and score every head on every relation.

    Left out and counted: sentences without a tree, and those with more tokens than the model has positions; arcs of
    words that share a token or have none.

    Args:
        sentences: of one treebank, in order; even numbers choose, odd ones score.
        seed: of the bootstrap.

    Raises:
        InputError: no sentence with a tree, or none that can be scored.
        UnsupportedError: a model that cannot be watched, or that reads no text.
    """
    counts = Counts()
    prepared = [found for sentence in sentences if (found := prepare(loaded, sentence, counts, tell)) is not None]
    if not prepared:
        raise InputError(
            "syntax",
            expected="sentences with gold trees (a number in column HEAD)",
            got=f"{counts.sentences} sentences, {counts.without_tree} of them without a tree and "
            f"{counts.too_long} longer than the model reads",
            do="give a treebank of Universal Dependencies",
        )
    tally: Tally | None = None
    texts = [one.text for one in prepared]
    for index, heads, weights in group_weights(loaded, texts, lambda done, total: tell("read", done, total)):
        if tally is None:
            tally = Tally(heads.names)
        tally.add(prepared[index].sentence.number, prepared[index].arcs, weights)
    assert tally is not None
    if not len(tally):
        lost = counts.lost
        raise InputError(
            "syntax",
            expected="arcs of a gold tree",
            got=f"none that can be scored in {len(prepared)} sentences: {lost.sharing_a_token} of words that share a "
            f"token, {lost.without_token} of words without one",
        )
    return SyntaxFound(tally.scores(seed), counts, len(tally), tally.causal, prepared)


def prepare(loaded: LoadedModel, sentence: Sentence, counts: Counts, tell: Progress = quiet) -> Prepared | None:
    """Tokenise a sentence and find its units and arcs; None for one that is left out, which `counts` says."""
    counts.sentences += 1
    tell("align", counts.sentences, 0)
    if not sentence.has_tree:
        counts.without_tree += 1
        return None
    read = read_text(loaded, sentence.text)
    if read is None:
        counts.without_tokens += 1
        return None
    tokens, inputs = read
    positions = positions_of(loaded.model.config)
    if positions is not None and len(tokens) > positions:
        counts.too_long += 1
        return None
    units = align(
        [(word.start, word.end) for word in sentence.words], spans_of(tokens.start, tokens.end, tokens.special)
    )
    counts.words += len(sentence.words)
    counts.words_sharing_a_token += units.shared
    counts.words_without_token += units.without
    counts.texts_put_together += sentence.rebuilt
    arcs = arcs_of(sentence, units, counts.lost)
    return Prepared(sentence, units, arcs, Grouped(tokens, inputs, units.of_token, units.of_token))


def weights_of(loaded: LoadedModel, prepared: Prepared) -> tuple[tuple[tuple[str, int, int], ...], np.ndarray]:
    """Names of the heads, and their weights over one sentence, float32 `[heads, units, units]`."""
    ((_, heads, weights),) = group_weights(loaded, [prepared.text])
    return heads.names, weights
