"""`scan`: a set of texts through a model, shard by shard, into one folder; stopped anywhere, it goes on from there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import pyarrow.parquet as pq
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from heedmap.attention.checks import whole
from heedmap.capture.models import PACKAGED, resolve
from heedmap.errors import InputError
from heedmap.sets.files import only_writer
from heedmap.sets.finishing import Done, finish
from heedmap.sets.plan import begin, make_folder
from heedmap.sets.reader import TextSet, open_set
from heedmap.sets.schema import TEXTS
from heedmap.sets.shards import Shard, finished, shard_files, write_shard
from heedmap.textsets.batches import BUDGET
from heedmap.textsets.engines import Engine, here, processes
from heedmap.textsets.measurer import Measurer
from heedmap.textsets.records import Job, jobs_of
from heedmap.textsets.settings import PER_SHARD, WHERE, Settings, further
from heedmap.textsets.sources import By, Texts
from heedmap.textsets.stored import store

EngineName = Literal["local", "ray"]


class Progress(Protocol):
    """Told what `scan` is at: `stage` is "measure", "merge" or "store"; `shards` and `texts` that are done."""

    def __call__(self, stage: str, shards: int, texts: int) -> None: ...


def scan(
    texts: str | os.PathLike[str],
    model: str | os.PathLike[str] | PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    out: str | os.PathLike[str],
    column: str | None = None,
    by: By | None = None,
    split: str | None = None,
    subset: str | None = None,
    limit: int | None = None,
    layers: Iterable[int] | int | None = None,
    heads: Iterable[int | str] | int | None = None,
    statistics: str | Iterable[str] = "default",
    max_tokens: int | None = None,
    budget: int = BUDGET,
    shard_texts: int = PER_SHARD,
    engine: EngineName = "local",
    workers: int = 1,
    threads: int | None = None,
    address: str | None = None,
    keep: int = 0,
    strict: bool = False,
    progress: Progress | None = None,
) -> TextSet:
    """Measure what every head does in each of many texts, and over all of them, into the folder `out`.

    Each text is measured as if it were alone. Work is cut into shards by the order of the texts; a shard is finished
    once its marker is written. Called again after an interruption with the same arguments, only unfinished shards are
    measured, and the set is the same as without one, bit for bit where torch has as many threads. A text that cannot be
    measured is recorded with its reason.

        texts = scan("reviews.jsonl", "minilm", out="sets/reviews")
        texts.table("means")

    Args:
        texts: a file (.jsonl, .txt, .csv, .tsv, .parquet), a folder of such files, a Hugging Face data set on disk or
            by name.
        model, tokenizer: as in `look`; a model in memory is measured in this process.
        column, by, split, subset, limit: see `heedmap.textsets.sources.Texts`.
        layers, heads, max_tokens, budget: see `Settings`.
        statistics: "default", or names of further statistics that give a head one number in each text.
        shard_texts: texts of one shard.
        engine: "local", or "ray" (`pip install "heedmap[ray]"`).
        workers: processes, or Ray actors.
        threads: of torch in each worker; None divides those of this machine.
        address: of a running Ray cluster.
        keep: store so many of the texts that serve as examples most often as ordinary runs.
        strict: raise at the first text that cannot be measured.
        progress: see `Progress`.

    Raises:
        InputError: texts, layers, heads or numbers that cannot be used, a source that gives no text at all; with
            `strict`, a text that cannot be measured.
        RunError: a folder that is something else, or a set of other texts or arguments.
        ModelError, UnsupportedError: a model that cannot be found, loaded or watched.
        StorageError: a disk that is full. Finished shards stay.
    """
    tell = progress or _silent
    source = Texts(_absolute(texts), column, by, split, subset, limit)
    source.check()
    in_memory = isinstance(model, torch.nn.Module)
    settings = Settings(
        model=None if in_memory or model is None else _findable(model),
        statistics=further(statistics),
        layers=_numbers(layers),
        heads=_numbers(heads),
        max_tokens=max_tokens,
        budget=budget,
    )
    settings.check()
    for what, number, least in (("shard_texts", shard_texts, 1), ("workers", workers, 1), ("keep", keep, 0)):
        whole(WHERE, what, number, least=least)
    if engine not in get_args(EngineName):
        raise InputError(WHERE, expected=f"an engine among {', '.join(get_args(EngineName))}", got=repr(engine))
    if (in_memory or tokenizer is not None) and (workers > 1 or engine == "ray"):
        raise InputError(
            WHERE, expected="a model by name or folder for several workers", got="one in memory", do="save it first"
        )
    if address is not None and engine != "ray":
        raise InputError(WHERE, expected="an address with the engine ray", got=f"engine {engine!r}")

    def measurer() -> Measurer:
        return Measurer(settings, resolve(model, tokenizer), threads)

    plan = settings.plan() | {
        "texts": source.__dict__,
        "shard_texts": shard_texts,
        "model": "memory" if in_memory else settings.model,
    }
    source.check_readable()
    run = _engine(engine, settings, workers, threads, address, measurer)
    folder = make_folder(Path(out))
    with only_writer(folder):
        begin(folder, plan)
        work = _Work(folder, strict=strict, tell=tell)
        jobs = work.unfinished(jobs_of(source, shard_texts))
        work.run(run, jobs)
        tell("merge", len(work.shards), work.texts)
        finish(folder, Done(plan, work.in_order(), work.complete_before))
        found = open_set(folder)
        if keep:
            store(found, source, keep, model, tokenizer, settings, lambda count: tell("store", count, keep))
    return open_set(folder)


class _Work:
    """The shards of a set: which stand already, which are done now."""

    def __init__(self, folder: Path, *, strict: bool, tell: Progress) -> None:
        self._folder = folder
        self._strict = strict
        self._tell = tell
        self.shards: dict[int, Shard] = {}
        self.texts = 0
        self.complete_before = True
        """Whether every shard was finished before."""

    def unfinished(self, jobs: Iterator[Job]) -> Iterator[Job]:
        """The shards that have to be measured; finished ones are held to the texts of the source."""
        for job in jobs:
            shard = finished(self._folder, job.number)
            if shard is None:
                self.complete_before = False
                yield job
                continue
            if shard.digest != job.digest:
                raise _changed(self._folder, job)
            if self._strict and shard.texts < shard.records:
                raise _refused(*_left_out(self._folder, job))
            self._note(shard)

    def run(self, engine: Engine, jobs: Iterator[Job]) -> None:
        for outcome in engine(jobs):
            if self._strict and outcome.refused:
                raise _refused(*outcome.refused[0])
            self._note(write_shard(self._folder, outcome.shard, outcome.contents))

    def _note(self, shard: Shard) -> None:
        self.shards[shard.number] = shard
        self.texts += shard.records
        self._tell("measure", len(self.shards), self.texts)

    def in_order(self) -> list[Shard]:
        return [self.shards[number] for number in sorted(self.shards)]


def _changed(folder: Path, job: Job) -> InputError:
    first = job.records[0]
    return InputError(
        WHERE,
        expected=f"the texts that {folder} was begun with",
        got=f"others in shard {job.number}, from {first.stands} on",
        do="choose another folder for the changed texts",
    )


def _left_out(folder: Path, job: Job) -> tuple[int, str]:
    """Number, place and reason of the first text that a finished shard left out."""
    reasons = pq.read_table(folder / shard_files(job.number)[TEXTS], columns=["reason"]).column(0).to_pylist()
    at = next(place for place, reason in enumerate(reasons) if reason is not None)
    return job.left_out(at, reasons[at])


def _refused(number: int, reason: str) -> InputError:
    return InputError(
        WHERE,
        expected="texts that can all be measured (--strict)",
        got=f"text {number}, {reason}",
        do="without --strict such texts are recorded and left out",
    )


def _engine(
    engine: EngineName, settings: Settings, workers: int, threads: int | None, address: str | None, measurer: Any
) -> Engine:
    if engine == "ray":
        from heedmap.textsets.ray_engine import cluster

        return cluster(settings, workers, threads, address)
    return here(measurer) if workers == 1 else processes(settings, workers, threads)


def _absolute(texts: str | os.PathLike[str]) -> str:
    """A path from the root, so that a resumed scan knows it from anywhere; a data set's name as it is."""
    if not isinstance(texts, str | os.PathLike):
        raise InputError(WHERE, expected="a file, a folder or a data set of texts", got=type(texts).__name__)
    name = os.fspath(texts)
    path = os.path.expanduser(name)  # noqa: PTH111 — Path raises for names that no file can have
    return os.path.realpath(path) if os.path.exists(path) else name  # noqa: PTH110


def _findable(model: str | os.PathLike[str]) -> str:
    """A model's folder or file from the root, so that `heedmap look --of` and other nodes find it; a name as it is."""
    if not isinstance(model, str | os.PathLike):
        raise InputError(WHERE, expected="a model's name, folder or file, or a model", got=type(model).__name__)
    name = os.fspath(model)
    path = os.path.expanduser(name)  # noqa: PTH111 — Path raises for names that no file can have
    return os.path.abspath(path) if name not in PACKAGED and os.path.exists(path) else name  # noqa: PTH100, PTH110


def _numbers(chosen: Any) -> tuple[Any, ...] | None:
    if chosen is None:
        return None
    return (chosen,) if isinstance(chosen, int | str) else tuple(chosen)


def _silent(stage: str, shards: int, texts: int) -> None: ...
