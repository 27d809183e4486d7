"""Worker processes, each with a pipe of its own, so that one that dies in the middle of a message harms no other.

The pool of the standard library has one pipe for all: a worker that is killed while it writes, mostly for want of
memory, leaves half a message there and a lock that nobody will free, and the caller waits for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from heedmap.errors import HeedmapError, ModelError
from heedmap.textsets.interrupts import held_back, start_server, without_shared_bars
from heedmap.textsets.settings import WHERE

Begin = Callable[..., Callable[[Any], Any]]


def context_of(preload: str) -> Any:
    """How processes start: where it can be, forked from a server that has imported all once and computed nothing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    start_server()
    return context


@dataclass(frozen=True, eq=False)
class _Worker:
    process: Any
    pipe: Connection


class Crew:
    """Up to `most` processes, started as work comes, that end with this one, however it ends.

    Args:
        context: see `context_of`.
        begin: `begin(*arguments)`, called in each process with its first task, gives what does the tasks.
    """

    def __init__(self, context: Any, most: int, begin: Begin, *arguments: object) -> None:
        self._context, self._most, self._begin, self._arguments = context, most, begin, arguments
        self._workers: list[_Worker] = []

    def results(self, tasks: Iterator[Any]) -> Iterator[Any]:
        """What becomes of the tasks, in the order in which they are done; one task more than there are workers is read.

        Raises:
            ModelError: a worker was ended from outside.
            Exception: whatever a task raised, as it was.
        """
        try:
            yield from self._run(tasks)
            self._dismiss()
        finally:
            for worker in self._workers:  # what they are at is done again
                worker.process.kill()
                worker.process.join()
                worker.pipe.close()

    def _run(self, tasks: Iterator[Any]) -> Iterator[Any]:
        busy: set[Connection] = set()
        ahead = next(tasks, None)
        while ahead is not None or busy:
            while ahead is not None and len(self._workers) < self._most:
                started = self._start()
                self._send(started, ahead)
                busy.add(started)
                ahead = next(tasks, None)
            pipe: Any = wait(list(busy))[0]
            found = self._receive(pipe)
            if ahead is None:
                busy.remove(pipe)
            else:  # before the caller takes its time over what was found
                self._send(pipe, ahead)
                ahead = next(tasks, None)
            yield found

    def _send(self, pipe: Connection, task: Any) -> None:
        try:
            pipe.send(task)
        except OSError as error:
            raise self._lost() from error

    def _receive(self, pipe: Connection) -> Any:
        try:
            found = pipe.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        if isinstance(found, BaseException):
            raise found
        return found

    def _lost(self) -> ModelError:
        return ModelError(
            WHERE,
            expected=f"{self._most} workers that live until the end",
            got="one that was ended from outside, mostly for want of memory",
            do="run the same command again with fewer --workers or a smaller --budget: finished shards are kept",
        )

    def _start(self) -> Connection:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._begin, self._arguments), daemon=True)
        with held_back():
            process.start()
            self._workers.append(_Worker(process, ours))
        theirs.close()  # else the end of its process would not be the end of the pipe
        return ours

    def _dismiss(self) -> None:
        """Let all workers leave by themselves."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(10)


def _serve(pipe: Connection, begin: Begin, arguments: tuple[object, ...]) -> None:
    """Do one task after the other, until nobody sends any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    without_shared_bars()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    work: Callable[[Any], Any] | None = None
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            work = work or begin(*arguments)
            found = work(task)
        except Exception as error:  # noqa: BLE001 — raised again where it is heard
            found = _sendable(error)
        pipe.send(found)


def _sendable(error: Exception) -> Exception:
    """An error with its trace, which does not cross processes by itself; its text alone where it cannot be sent."""
    if isinstance(error, HeedmapError):
        return error
    trace = traceback.format_exc()
    error.add_note(trace)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 — whatever its class does when it is sent
        return RuntimeError(trace)
    return error


def _end_with(sentinel: int) -> None:
    """Leave when the process that started this one is gone, however it went."""
    wait([sentinel])
    os._exit(1)
