"""A model over documents with gold coreference: which heads look from a mention to its antecedent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from heedmap.capture.models import LoadedModel
from heedmap.capture.positions import positions_of
from heedmap.capture.tokens import Tokens
from heedmap.errors import InputError
from heedmap.experiments.syntax import Progress, quiet
from heedmap.experiments.word_weights import Grouped, group_weights, read_text
from heedmap.heads.coreference import HeadName, Item, Place, Resolved, Tally, items_of
from heedmap.heads.gap import Example, answers_of
from heedmap.heads.mentions import Document, Mention
from heedmap.heads.units import align, spans_of

PARAGRAPH, SENTENCE = "\n\n", " "
"""What stands between paragraphs and between sentences of a window's text."""


@dataclass
class Counts:
    """What was read and what was left out, for the table to state."""

    documents: int = 0
    windows: int = 0
    mentions: int = 0
    of_empty_nodes: int = 0
    anaphors: int = 0
    without_antecedent_here: int = 0
    head_without_unit: int = 0
    sentences_too_long: int = 0

    def entries(self) -> dict[str, str | int | float]:
        """Name → number, those that are not 0."""
        found = {
            "documents": self.documents,
            "windows": self.windows,
            "mentions": self.mentions,
            "mentions left out, of empty nodes alone": self.of_empty_nodes,
            "mentions with an antecedent in their document": self.anaphors,
            "lost: every antecedent lies in another window": self.without_antecedent_here,
            "lost: head word shares a token or has none": self.head_without_unit,
            "sentences over the model's length, or without tokens": self.sentences_too_long,
        }
        return {name: count for name, count in found.items() if count}


@dataclass(frozen=True)
class Window:
    """Sentences of one document that a model reads together, with the items among their mentions."""

    document: int
    items: list[Item]
    text: Grouped


@dataclass(frozen=True)
class ChainsFound:
    """What a model's heads do on gold chains: classes of mentions, counts, and how many items were scored."""

    classes: list[Resolved]
    counts: Counts
    items: int


def measure_chains(
    loaded: LoadedModel,
    documents: Sequence[Document],
    *,
    window: int | None = None,
    seed: int = 0,
    tell: Progress = quiet,
) -> ChainsFound:
    """Run documents through a model and hold every head's choice of antecedents against the gold chains.

    A document is cut between sentences into windows of as many as the model reads at once. A mention whose antecedents
    all lie in other windows is lost, and counted.

    Args:
        window: tokens of a window at most, special ones included; the model's positions unless given.
        seed: of the bootstrap.

    Raises:
        InputError: fewer than two documents with an item, or a window that holds no sentence.
        UnsupportedError: a model that cannot be watched, or that reads no text.
    """
    positions = positions_of(loaded.model.config)
    most = min(size for size in (window, positions, 10**9) if size is not None)
    counts = Counts()
    windows: list[Window] = []
    for number, document in enumerate(documents):
        windows += _windows(loaded, number, document, most, counts)
        tell("align", number + 1, len(documents))
    if not any(one.items for one in windows):
        raise InputError(
            "coreference",
            expected="mentions with an antecedent in the same window",
            got=f"none in {counts.windows} windows of at most {most:,} tokens",
            do="take longer windows, or another model",
        )
    tally: Tally | None = None
    for index, heads, weights in group_weights(
        loaded, [one.text for one in windows], lambda done, total: tell("read", done, total)
    ):
        tally = Tally(heads.names) if tally is None else tally
        tally.add(windows[index].document, windows[index].items, weights)
    assert tally is not None
    return ChainsFound(tally.scores(seed), counts, len(tally))


def _windows(loaded: LoadedModel, number: int, document: Document, most: int, counts: Counts) -> list[Window]:
    """The windows of a document, each as long as fits."""
    counts.documents += 1
    counts.mentions += len(document.mentions)
    counts.of_empty_nodes += document.unsaid
    anaphors = {id(mention) for mention in document.anaphors}
    counts.anaphors += len(anaphors)
    found = []
    start = 0
    sizes = [0 if read is None else len(read[0]) for read in
             (read_text(loaded, sentence.text) for sentence in document.sentences)]  # fmt: skip
    while start < len(document.sentences):
        stop = start + 1
        while stop < len(document.sentences) and sum(sizes[start : stop + 1]) <= most:
            stop += 1
        read = read_text(loaded, _text(document, start, stop)[0])
        while read is not None and len(read[0]) > most and stop > start + 1:  # what parts paragraphs is tokens too
            stop -= 1
            read = read_text(loaded, _text(document, start, stop)[0])
        if read is None or len(read[0]) > most:
            counts.sentences_too_long += stop - start
            counts.head_without_unit += sum(id(mention) in anaphors for mention in _within(document, start, stop))
        else:
            found.append(_window(number, document, start, stop, anaphors, read, counts))
        start = stop
    return found


def _within(document: Document, start: int, stop: int) -> list[Mention]:
    """The mentions whose heads are words of sentences `[start, stop)`."""
    ends = [*document.starts, document.starts[-1] + len(document.sentences[-1].words)]
    return [mention for mention in document.mentions if ends[start] <= mention.head < ends[stop]]


def _window(
    number: int,
    document: Document,
    start: int,
    stop: int,
    anaphors: set[int],
    read: tuple[Tokens, dict[str, Tensor]],
    counts: Counts,
) -> Window:
    _, spans = _text(document, start, stop)
    tokens, inputs = read
    units = align(spans, spans_of(tokens.start, tokens.end, tokens.special))
    first = document.starts[start]
    alone = units.alone
    heads: dict[int, list[Mention]] = {}
    for mention in _within(document, start, stop):
        if alone[mention.head - first]:
            heads.setdefault(int(units.of_word[mention.head - first]), []).append(mention)
        elif id(mention) in anaphors:
            counts.head_without_unit += 1
    order = sorted(heads)
    places = [
        Place(frozenset(one.chain for one in heads[unit]), heads[unit][0].kind, heads[unit][0].word) for unit in order
    ]
    asked = [(place, one.chain) for place, unit in enumerate(order) for one in heads[unit] if id(one) in anaphors]
    items, lost = items_of(places, asked)
    counts.windows += 1
    counts.without_antecedent_here += lost
    groups = np.full(len(units) + 1, -1, dtype=np.int64)  # the last for tokens of no unit
    groups[order] = np.arange(len(order))
    own = groups[units.of_token]
    return Window(number, items, Grouped(tokens, inputs, own, own))


def _text(document: Document, start: int, stop: int) -> tuple[str, list[tuple[int, int]]]:
    """The text of sentences `[start, stop)` and the place of each of their words in it."""
    text, spans = "", []
    for sentence in document.sentences[start:stop]:
        if text:
            text += PARAGRAPH if sentence.paragraph else SENTENCE
        spans += [(len(text) + word.start, len(text) + word.end) for word in sentence.words]
        text += sentence.text
    return text, spans


@dataclass(frozen=True)
class GapFound:
    """What a model's heads answer to GAP: bool `[examples, heads, 2]`; `lost` examples got no answer."""

    heads: tuple[HeadName, ...]
    answers: np.ndarray
    lost: int


def measure_gap(loaded: LoadedModel, examples: Sequence[Example], *, tell: Progress = quiet) -> GapFound:
    """Run GAP's paragraphs through a model and let every head answer which name the pronoun looks at most.

    The weights of a name's tokens are summed, the rows of the pronoun's tokens averaged. An example that is longer than
    the model reads, or in which pronoun and names share a token or have none, gets no answer, and is counted.

    Raises:
        InputError: no example that can be answered.
        UnsupportedError: a model that cannot be watched, or that reads no text.
    """
    positions = positions_of(loaded.model.config)
    texts: list[Grouped] = []
    numbers: list[int] = []
    for number, example in enumerate(examples):
        tell("align", number + 1, len(examples))
        read = read_text(loaded, example.text)
        if read is None:
            continue
        tokens, inputs = read
        spans = spans_of(tokens.start, tokens.end, tokens.special)
        own = [_covering(span, spans) for span in (example.pronoun, example.a, example.b)]
        shared = (np.stack(own).sum(0) > 1).any()
        if (positions is not None and len(tokens) > positions) or shared or not all(mark.any() for mark in own):
            continue
        rows, keys = np.where(own[0], 0, -1), np.where(own[1], 0, np.where(own[2], 1, -1))
        texts.append(Grouped(tokens, inputs, rows, keys))
        numbers.append(number)
    if not texts:
        raise InputError(
            "coreference", expected="an example of GAP that the model can read", got=f"none of {len(examples)}"
        )
    found: GapFound | None = None
    for index, heads, weights in group_weights(loaded, texts, lambda done, total: tell("read", done, total)):
        if found is None:
            answers = np.zeros((len(examples), len(heads), 2), dtype=bool)
            found = GapFound(heads.names, answers, len(examples) - len(texts))
        found.answers[numbers[index]] = answers_of(weights[:, 0])
    assert found is not None
    return found


def _covering(span: tuple[int, int], tokens: Sequence[tuple[int, int] | None]) -> np.ndarray:
    """Which tokens share a character with a stretch of text, bool `[tokens]`."""
    return np.array([token is not None and token[0] < span[1] and span[0] < token[1] for token in tokens], dtype=bool)
