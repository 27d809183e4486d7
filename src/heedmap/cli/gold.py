"""What the commands over gold annotations share: a progress line that says what an interruption leaves, data names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from heedmap.cli.main import EXIT_INTERRUPTED
from heedmap.cli.progress import LayerProgress

if TYPE_CHECKING:
    from heedmap.capture.models import LoadedModel


class GoldProgress:
    """A progress line over texts; Ctrl-C within it says how far it came and that nothing was written, and exits 130.

    Called as experiments call `tell`: with a stage, and how many of its steps are done.
    """

    def __init__(self, model: str, unit: str, *, quiet: bool = False) -> None:
        self._line = LayerProgress(model, quiet=quiet)
        self._unit = unit
        self._done = (0, 0)

    def __enter__(self) -> Self:
        self._line.__enter__()
        return self

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage == "read":
            self._done = (done, total)
        self._line(stage, done, total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.__exit__(kind, error, trace)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            done, total = self._done
            far = f"after {done:,} of {total:,} {self._unit}" if total else "before the model read anything"
            click.echo(f"[heedmap] interrupted {far}; nothing was written", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from error


def data_name(*files: Path) -> str:
    """Names of files with the beginning of their SHA-256, so that a table says on which bytes it was made.

    Of more than three files the first and the last are named, with the hash of all hashes in order.
    """
    hashes = [_hash(file) for file in files]
    if len(files) <= 3:
        return ", ".join(f"{file.name} (sha256 {digest[:12]})" for file, digest in zip(files, hashes, strict=True))
    together = hashlib.sha256("".join(hashes).encode()).hexdigest()
    return f"{len(files)} files, {files[0].name} to {files[-1].name} (sha256 of their hashes {together[:12]})"


def random_weights(loaded: LoadedModel) -> dict[str, int]:
    """The number of weights that no file held and that were drawn on loading, for a table to state; warns of them."""
    count = len(loaded.initialised)
    if count:
        click.echo(f"warning: {count} weights of {loaded.name} were not in its file and are random numbers", err=True)
    return {"weights drawn at random on loading": count} if count else {}


def _hash(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
