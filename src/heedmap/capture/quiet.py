"""No chatter: progress bars, load reports and log lines of transformers and its hub stay off the terminal."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from collections.abc import Iterator

_STATE = threading.local()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Errors only from the loggers of transformers and its hub, nothing on standard error (bars), no warnings; all
    restored on exit. Inside another one it does nothing: what it costs is then paid once for many texts."""
    if getattr(_STATE, "entered", False):
        yield
        return
    _STATE.entered = True
    try:
        with _quiet():
            yield
    finally:
        _STATE.entered = False


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    loud = [(one, level) for one in (logging, hub) if (level := one.get_verbosity()) != one.ERROR]
    for one, _ in loud:  # setting a level looks through every logger there is
        one.set_verbosity_error()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in loud:
            one.set_verbosity(level)
