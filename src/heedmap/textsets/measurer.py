"""A model at work on shards of texts: the one function that every engine runs."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from heedmap.capture.account import implementation as implementation_of
from heedmap.capture.account import model_entry, versions
from heedmap.capture.freed import Growth, give_back
from heedmap.capture.known import Known
from heedmap.capture.models import LoadedModel, resolve
from heedmap.capture.quiet import quiet
from heedmap.capture.selection import Selection
from heedmap.capture.selfcheck import self_check
from heedmap.capture.session import Call, Session
from heedmap.capture.taking import sizes
from heedmap.capture.views import View
from heedmap.capture.watch import opened
from heedmap.errors import InputError
from heedmap.sets.schema import CELLS
from heedmap.sets.sums import Head, Sums
from heedmap.textsets.batches import batches_of
from heedmap.textsets.gather import gather, parts
from heedmap.textsets.outcome import Outcome, outcome
from heedmap.textsets.prepared import Prepared, Reader, Refused, prepare, stacked
from heedmap.textsets.records import Job
from heedmap.textsets.settings import Settings
from heedmap.textsets.values import Marks, head_values, units_of

Array = np.ndarray[Any, Any]


@dataclass
class Found:
    """What was measured of the texts of a shard so far."""

    heads: list[Head] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Place in the shard of each measured text."""
    values: list[Array] = field(default_factory=list)
    """One `[texts, values, heads]` for each batch."""
    sums: dict[str, Array] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


class Measurer:
    """Holds a model and measures shard after shard; the same shard gives the same bytes.

    Args:
        settings: what to measure.
        loaded: the model where it is in memory already; None loads it.
        threads: of torch in this process; None leaves them as they are.
    """

    def __init__(self, settings: Settings, loaded: LoadedModel | None = None, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.settings = settings
        self.loaded = loaded or resolve(settings.model)
        self._selection = Selection.of(settings.layers, settings.heads)
        self._reader = Reader(self.loaded, settings.max_tokens)
        self._growth = Growth()
        self._calls: list[Call] = []
        self._windows: set[int] = set()
        pad = getattr(self.loaded.tokenizer, "pad_token_id", None)
        self._pad = pad if isinstance(pad, int) else 0
        if torch.cuda.is_available() and self.loaded.source != "memory":
            self.loaded.model.to("cuda")  # type: ignore[arg-type]
        self._session = Session(self.loaded.model, self._selection, settings.names(), False, self._calls.append)
        self.model = model_entry(self.loaded, implementation_of(self._session))

    def shard(self, job: Job) -> Outcome:
        """Measure the texts of a shard.

        Raises:
            UnsupportedError: the model attends by its own code.
            InputError: layers or heads that the model does not have.
        """
        began = time.perf_counter()
        told: Counter[str] = Counter()
        with quiet(), _uncollected():  # once for all of them
            ready = [prepare(place, record, self._reader, told) for place, record in enumerate(job.records)]
        texts = [text for text in ready if isinstance(text, Prepared)]
        refused = {text.place: text.reason for text in ready if isinstance(text, Refused)}
        found = Found()
        training = [module for module in self.loaded.model.modules() if module.training]
        self.loaded.model.eval()
        try:
            if texts:
                with opened(self._session), torch.no_grad():
                    for batch in batches_of(texts, self.settings.budget):
                        self._batch(batch, found, refused)
                        self._growth.check()
            checked = self._check(texts, refused) if job.number == 0 else None
        finally:
            for module in training:
                module.training = True
            give_back(sum(map(len, texts)))  # batches of ever other shapes leave their places behind
        measured = {text.place: text for text in texts if text.place not in refused}
        facts = {
            "model": self.model,
            "units": {name: found.units[name] for name in found.names},
            "versions": versions(),
            "threads": torch.get_num_threads(),
            "warnings": dict(told),
            "seconds": time.perf_counter() - began,
        } | ({} if checked is None else {"self_check": checked})
        return outcome(job, measured, refused, found, facts)

    def _batch(self, batch: list[Prepared], found: Found, refused: dict[int, str]) -> None:
        """Measure texts together; where one of them spoils the pass, each alone, and that one is left out."""
        self._calls.clear()
        self._session.known = _known(batch)
        view = View(self.loaded.model, stacked(batch, self._pad))
        try:
            view.forward(view.length)
        except InputError as error:
            if len(batch) == 1:
                refused[batch[0].place] = f"expected {error.expected}, got {error.got}"[:300]
                return
            for text in batch:
                self._batch([text], found, refused)
            return
        finally:
            calls = list(self._calls)
            self._calls.clear()
        marks = Marks(batch)
        each = [head_values(call, marks) for call in calls]
        heads = [(call.part, call.layer, head) for call in calls for head in call.heads]
        names = list(each[0])
        if not found.heads:
            found.heads, found.names, found.units = heads, names, units_of(calls[0])
            found.sums = Sums.empty(heads, (), ()).arrays
        elif (found.heads, found.names) != (heads, names):
            raise InputError(
                "scan", expected="the same heads in every text", got=f"{len(found.heads)} heads and {len(heads)}"
            )
        found.places.extend(text.place for text in batch)
        found.values.append(np.concatenate([np.stack([own[name] for name in names], 1) for own in each], -1))
        start = 0
        for call in calls:
            gather(call, marks, found.sums, slice(start, start + len(call.heads)))
            start += len(call.heads)
            self._windows.update(sizes(call.formula.mask))

    def _check(self, texts: Sequence[Prepared], refused: dict[int, str]) -> dict[str, Any] | None:
        """The self-check of a run, on the first text of the set."""
        first = next((text for text in texts if text.place not in refused), None)
        if first is None:
            return None
        view = View(self.loaded.model, stacked([first], self._pad))
        return self_check(self.loaded.model, view.forward, view.length, self._selection, sorted(self._windows))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Many objects are made here and all of them stay: looking for garbage among them would be in vain."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _known(batch: list[Prepared]) -> Known:
    """What statistics of copies, kinds and parts may ask about the tokens of a batch; padding is no copy."""
    longest = max(map(len, batch))
    ids = torch.stack([
        torch.nn.functional.pad(torch.tensor(text.tokens.ids), (0, longest - len(text)), value=-1) for text in batch
    ])  # fmt: skip
    classes = {
        name: torch.stack([
            torch.nn.functional.pad(torch.from_numpy(getattr(text, name)), (0, longest - len(text))) for text in batch
        ])
        for name in ("special", "punctuation")
    }  # fmt: skip
    lengths = [longest] if longest == min(map(len, batch)) else list(map(len, batch))
    shares = torch.zeros(len(lengths), longest, CELLS)
    for own, length in zip(shares, lengths, strict=True):
        own[:length] = torch.from_numpy(parts(length))
    return Known(ids, {}, classes, parts=shares)
