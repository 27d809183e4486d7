"""Where shards are measured: in this process, in several, or on a Ray cluster; the same function everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from heedmap.textsets.crew import Crew, context_of
from heedmap.textsets.measurer import Measurer
from heedmap.textsets.outcome import Outcome
from heedmap.textsets.records import Job
from heedmap.textsets.settings import Settings


class Engine(Protocol):
    """Measures shards and yields their outcomes, in the order in which they are done."""

    def __call__(self, jobs: Iterator[Job]) -> Iterator[Outcome]: ...


def here(measurer: Callable[[], Measurer]) -> Engine:
    """In this process, one shard after the other; the model is loaded when the first shard comes."""

    def run(jobs: Iterator[Job]) -> Iterator[Outcome]:
        held: Measurer | None = None
        for job in jobs:
            held = held or measurer()
            yield held.shard(job)

    return run


def processes(settings: Settings, workers: int, threads: int | None = None) -> Engine:
    """In several processes of this machine, each with a model of its own and its part of torch's threads.

    They end with this process, however it ends, and write nothing: what they find comes back through a pipe.
    """
    each = threads or max(1, torch.get_num_threads() // workers)

    def run(jobs: Iterator[Job]) -> Iterator[Outcome]:
        yield from Crew(context_of(__name__), workers, _measuring, settings, each).results(jobs)

    return run


def _measuring(settings: Settings, threads: int) -> Callable[[Job], Outcome]:
    """What a worker does with shards; the model is loaded with the first."""
    return Measurer(settings, threads=threads).shard
