"""A model over many short texts: the exact weights of every head between groups of tokens, one batch in memory.

    W[a, b] = mean over tokens i of group a of  Σ over tokens j of group b  w[i, j]

Groups are words mostly. What goes to the tokens of a word is summed, what they give averaged (Clark et al. 2019, §4.1).
The weights come from the strips of the sweep that also gives the model its output, so that a long text costs memory
linear in its length, and one pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.interface import InterfaceCall
from heedmap.capture.models import LoadedModel
from heedmap.capture.selection import Selection
from heedmap.capture.session import Call, Place, Session
from heedmap.capture.tokens import Tokens, tokenise
from heedmap.capture.views import check_known, reader_of
from heedmap.capture.watch import opened
from heedmap.errors import InputError
from heedmap.kernels.hiding import NotFiniteError
from heedmap.kernels.plan import Task
from heedmap.measure import KERNELS, STRIP_BYTES
from heedmap.statistics.base import Grid, Statistic
from heedmap.statistics.dense import Dense
from heedmap.statistics.strip import Strip

BATCH_TOKENS = 2048
"""Tokens of a batch, padding included; a longer text is a batch by itself."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Grouped:
    """One text to be run: its tokens, the model's inputs, and the group of each token as a row and as a key.

    `rows` and `keys` are int64 `[tokens]`, −1 for a token of no group; groups are numbered from 0.
    """

    tokens: Tokens
    inputs: dict[str, Tensor]
    rows: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class Heads:
    """Names of the heads that weights are of: (part, layer, head) of each."""

    names: tuple[tuple[str, int, int], ...]

    def __len__(self) -> int:
        return len(self.names)


def read_text(loaded: LoadedModel, text: str) -> tuple[Tokens, dict[str, Tensor]] | None:
    """Tokens and inputs of a text for this model, of any length; None for a text that cannot be tokenised.

    That is an empty one, or one whose letters the tokenizer drops or takes for special tokens alone.

    Raises:
        InputError: a tokenizer of another model.
    """
    try:
        tokens, inputs = tokenise(loaded.tokenizer, text)
    except InputError:
        return None
    check_known(loaded.model, tokens)
    return tokens, inputs


@torch.no_grad()
def group_weights(
    loaded: LoadedModel, texts: Sequence[Grouped], tell: Progress = lambda done, total: None
) -> Iterator[tuple[int, Heads, np.ndarray]]:
    """Run texts through a model and give, for each, the weights between its groups.

    Texts are run in batches of similar length, shorter ones padded on the right behind a mask, so that each reads as it
    does alone.

    Yields:
        `(index of the text, heads, weights)`, in no order of the texts; weights float32 `[heads, row groups, key
        groups]`, over all heads of all layers in order.

    Raises:
        UnsupportedError: a model that cannot be watched, or that reads no text.
        InputError: NaN or infinity in the model's query or key.
    """
    if not texts:
        return
    body = reader_of(loaded.model, texts[0].inputs, decoding=False)
    session = Session(body, Selection.of(None, None), (), False, _ignore, compute=_Reader())
    reader = session.compute
    assert isinstance(reader, _Reader)
    done = 0
    for batch in _batches(texts):
        reader.start([texts[index] for index in batch], next(loaded.model.parameters()).device)
        with opened(session):
            body(**_inputs(body, loaded, [texts[index].inputs for index in batch]))
        heads, weights = reader.result()
        for place, index in enumerate(batch):
            text = texts[index]
            yield index, heads, weights[place, :, : _count(text.rows), : _count(text.keys)]
        done += len(batch)
        tell(done, len(texts))


def _ignore(call: Call) -> None:
    """No call is measured: their weights go to words as they are computed."""


def _count(groups: np.ndarray) -> int:
    return int(groups.max(initial=-1)) + 1


def _batches(texts: Sequence[Grouped]) -> Iterator[list[int]]:
    """Numbers of the texts of each batch, longest first: what does not fit in memory fails at once."""
    batch: list[int] = []
    for index in sorted(range(len(texts)), key=lambda index: -len(texts[index].tokens)):
        longest = len(texts[batch[0]].tokens) if batch else 0
        if batch and longest * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _inputs(body: nn.Module, loaded: LoadedModel, texts: list[dict[str, Tensor]]) -> dict[str, Any]:
    """The texts' inputs as one batch, padded on the right, and settings that spare memory."""
    named = inspect.signature(type(body).forward).parameters
    device = next(loaded.model.parameters()).device
    length = max(inputs["input_ids"].shape[1] for inputs in texts)
    pad = loaded.tokenizer.pad_token_id
    fill = {"input_ids": pad if isinstance(pad, int) else 0}
    batch: dict[str, Any] = {}
    for name in {*texts[0], "attention_mask"} & set(named):
        rows = [inputs.get(name, torch.ones_like(inputs["input_ids"])) for inputs in texts]
        padded = [nn.functional.pad(row, (0, length - row.shape[1]), value=fill.get(name, 0)) for row in rows]
        batch[name] = torch.cat(padded).to(device)
    return batch | ({"use_cache": False} if "use_cache" in named else {})


class _Reader:
    """Computes every call of a session by one sweep, and keeps its weights between groups."""

    def start(self, texts: list[Grouped], device: torch.device) -> None:
        """Begin a batch."""
        self._rows = [torch.from_numpy(text.rows).to(device) for text in texts]
        self._keys = [torch.from_numpy(text.keys).to(device) for text in texts]
        self._found: list[tuple[Place, np.ndarray]] = []

    def __call__(self, call: InterfaceCall, session: Session, place: Place) -> Tensor:
        inputs = call.read(session, place).inputs()
        statistic = GroupWeights(self._rows, self._keys)
        task = Task(inputs, (statistic,), Grid.of(inputs), (0, inputs.query_len), STRIP_BYTES, with_output=True)
        kernel = next(kernel for kernel in KERNELS if kernel.unsupported(inputs, (statistic,)) is None)
        try:
            swept = kernel.sweep(task)
        except NotFiniteError as error:
            item, head, row = error.place
            raise InputError(
                "weights of words",
                expected=error.expected,
                got=f"NaN or infinity in {place.part} layer {place.layer}, head {head}, at token {row} of a text of "
                f"{len(self._rows[item])} tokens",
                do="the model computes it: its weights may be damaged, or its dtype too narrow for them",
            ) from error
        session.report_layer(place.layer)
        self._found.append((place, swept.states[statistic.name].cpu().numpy()))
        assert swept.output is not None
        return swept.output.transpose(1, 2).contiguous()

    def result(self) -> tuple[Heads, np.ndarray]:
        """Names of the heads, and weights float32 `[texts, heads, row groups, key groups]`."""
        names = [(place.part, place.layer, head) for place, table in self._found for head in range(table.shape[1])]
        return Heads(tuple(names)), np.concatenate([table for _, table in self._found], axis=1)


class GroupWeights(Statistic):
    """Weights between groups of tokens: columns summed, rows averaged; `[batch, head, row group, key group]`."""

    name = "group_weights"
    axis = "query"
    reduction = "sum"
    unit = "weight"
    formula = "mean over rows of a group of the sum over keys of a group"
    source = "Clark et al. 2019, §4.1"

    def __init__(self, rows: list[Tensor], keys: list[Tensor]) -> None:
        """Group of each row and of each key, int64 `[length]` for each text of the batch; −1 for none."""
        self._rows, self._keys = rows, keys
        self._sizes = [torch.bincount(own[own >= 0]) for own in rows]

    def start(self, inputs: AttentionInputs, grid: Grid) -> Tensor:
        rows, keys = (max(1 + int(own.max()) for own in side) for side in (self._rows, self._keys))
        return torch.zeros(
            inputs.batch, inputs.query_heads, rows, keys, dtype=inputs.compute_dtype, device=inputs.query.device
        )

    def update(self, state: Tensor, strip: Strip, grid: Grid) -> None:
        rows = self._rows[strip.batch][strip.row_start : strip.row_stop]
        keys = self._keys[strip.batch][strip.key_start : strip.key_stop]
        some_rows, some_keys = torch.nonzero(rows >= 0)[:, 0], torch.nonzero(keys >= 0)[:, 0]
        if not len(some_rows) or not len(some_keys):
            return
        rows, keys = rows[some_rows], keys[some_keys]
        weights = strip.weights[:, some_rows[:, None], some_keys]  # [heads, rows, keys]
        summed = weights.new_zeros(state.shape[3], *weights.shape[:2])
        summed.index_add_(0, keys, weights.permute(2, 0, 1))  # [key groups, heads, rows]
        shares = summed.permute(1, 2, 0) / self._sizes[strip.batch][rows][:, None]
        state[strip.batch, strip.head_start : strip.head_stop].index_add_(1, rows, shares)

    def definition(self, dense: Dense) -> Tensor:
        state = self.start(dense.inputs, Grid.of(dense.inputs)).double()
        for batch, (rows, keys) in enumerate(zip(self._rows, self._keys, strict=True)):
            for row in range(state.shape[2]):
                for key in range(state.shape[3]):
                    own = dense.weights[batch][:, : len(rows), : len(keys)][:, rows == row][:, :, keys == key]
                    state[batch, :, row, key] = own.sum(2).mean(1) if own.shape[1] else 0
        return state
