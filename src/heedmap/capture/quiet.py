"""No chatter: progress bars, load reports and log lines of transformers and its hub stay off the terminal."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Errors only from the loggers of transformers and its hub, nothing on standard error (bars), no warnings; all
    restored on exit."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    loud = [(one, level) for one in (logging, hub) if (level := one.get_verbosity()) != one.ERROR]
    for one, _ in loud:  # setting a level looks through every logger there is, which every text would pay for
        one.set_verbosity_error()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in loud:
            one.set_verbosity(level)
