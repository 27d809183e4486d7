"""Ctrl-C while processes start: it waits until they stand, and is for the process that started them alone."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from types import FrameType


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold an interruption until the block is over, a second one not: nobody would end what is half started."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if heard:
            before(number, frame)
        heard.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        signal.raise_signal(signal.SIGINT)


def start_server() -> None:
    """Start the server that processes are forked from, deaf to Ctrl-C, which reaches every process of a terminal: it
    would end the server in the middle of its imports."""
    from multiprocessing import forkserver

    resource_tracker.ensure_running()  # else the server starts it, which opens the ears of this thread again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def without_shared_bars() -> None:
    """Let progress bars of this process lock its own threads only: a lock that processes share outlives one that is
    killed, and the system is told of a leak."""
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())
