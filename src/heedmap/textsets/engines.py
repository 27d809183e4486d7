"""Where shards are measured: in this process, in several, or on a Ray cluster; the same function everywhere."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any, Protocol

import torch

from heedmap.errors import ModelError
from heedmap.textsets.interrupts import held_back, start_server, without_shared_bars
from heedmap.textsets.measurer import Measurer
from heedmap.textsets.outcome import Outcome
from heedmap.textsets.records import Job
from heedmap.textsets.settings import WHERE, Settings

_AHEAD = 1
"""Shards read ahead of the workers, so that none waits for the source."""


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
        context = _context()
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(settings, each))
        waiting: set[Future[Outcome]] = set()
        whole = False
        try:
            for job in jobs:
                with held_back():
                    waiting.add(pool.submit(_measure, job))
                if len(waiting) >= workers + _AHEAD:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
            whole = True
        except BrokenProcessPool as error:
            raise ModelError(
                WHERE,
                expected=f"{workers} workers that live until the end",
                got="one that was ended from outside, mostly for want of memory",
                do="run the same command again with fewer --workers or a smaller --budget: finished shards are kept",
            ) from error
        finally:
            if not whole:  # what they are at is done again
                for process in list((pool._processes or {}).values()):
                    process.kill()
            pool.shutdown(wait=True, cancel_futures=True)

    return run


def _context() -> Any:
    """How processes start: where it can be, forked from a server that has imported all once and computed nothing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start_server()
    return context


_MEASURER: list[Measurer | BaseException] = []


def _begin(settings: Settings, threads: int) -> None:
    """Load the model in a worker; what fails there is told with the first shard, for a pool hides its reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    without_shared_bars()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    try:
        _MEASURER[:] = [Measurer(settings, threads=threads)]
    except Exception as error:  # noqa: BLE001 — raised again where it is heard
        _MEASURER[:] = [error]


def _end_with(sentinel: int) -> None:
    """Leave when the process that started this one is gone, however it went."""
    wait_for([sentinel])
    os._exit(1)


def _measure(job: Job) -> Outcome:
    (held,) = _MEASURER
    if isinstance(held, BaseException):
        raise held
    return held.shard(job)
