"""What the commands of the measured lessons share: a console, a progress line, and files that appear whole."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table

from heedmap.cli.main import EXIT_INTERRUPTED
from heedmap.errors import InputError, StorageError


class _Page(Console):
    """A console whose lines end with their last letter where they go into a pipe or a file."""

    def print(self, *objects: Any, **settings: Any) -> None:
        if self.is_terminal:
            super().print(*objects, **settings)
            return
        with self.capture() as captured:
            super().print(*objects, **settings)
        self.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def console() -> Console:
    """Standard output for a person: colour on a terminal, plain text without trailing blanks when piped."""
    return _Page(file=sys.stdout, highlight=False, markup=False, emoji=False)


def new_table(*columns: str, roomy: bool = True) -> Table:
    """A quiet table; the first column is left-aligned, the others hold numbers. Not `roomy`: one space between."""
    table = Table(
        box=box.SIMPLE_HEAD, header_style="bold cyan", show_edge=False, pad_edge=False,
        padding=(0, 1, 0, 0) if roomy else (0, 0),
    )  # fmt: skip
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
    return table


@contextlib.contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error while work goes on; call it to say what is being done."""
    screen = Console(file=sys.stderr)
    if quiet or not screen.is_terminal:
        yield lambda line: None
        return
    with Status(what, console=screen) as status:
        yield status.update


def end_interrupted(kept: str) -> NoReturn:
    """Say on standard error what a Ctrl-C left, and end with the exit code of one."""
    click.echo(f"[heedmap] interrupted; kept {kept}", err=True)
    raise click.exceptions.Exit(EXIT_INTERRUPTED)


def write_json(document: Mapping[str, Any]) -> None:
    """One JSON document on one line of standard output; NaN and infinity become null."""
    sys.stdout.write(json.dumps(finite(document), allow_nan=False, ensure_ascii=True) + "\n")


def finite(value: Any) -> Any:
    """Plain data without NaN and infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value


def parquet_path(text: str | None) -> Path | None:
    """The file to write a table to, checked before any work is done."""
    if text is None:
        return None
    path = Path(text)
    if path.suffix.lower() != ".parquet":
        raise InputError("--parquet", expected="a file name that ends in .parquet", got=repr(text))
    if path.is_dir():
        raise InputError("--parquet", expected="a file to write the table to", got=f"the folder {text!r}")
    above = next(place for place in path.absolute().parents if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise _no_place(path, f"{above}, which {'may not be written to' if above.is_dir() else 'is a file'}")
    return path


def write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a Parquet table, whole or not at all; raises ``StorageError`` where that cannot be done."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = pa.Table.from_pylist([dict(row) for row in rows])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".parquet", dir=path.parent)
        os.close(descriptor)
        try:
            parquet.write_table(table, name)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise _no_place(path, f"{problem.strerror or problem}") from problem


def _no_place(path: Path, why: str) -> StorageError:
    return StorageError(
        "--parquet",
        expected="a place to write the table to",
        got=f"{why} ({path})",
        do="choose another file name",
    )


def bytes_text(count: float) -> str:
    """`1.2 GB`, in powers of 1,000."""
    for unit, size in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            number = count / size
            return f"{number:,.0f} {unit}" if number >= 100 else f"{number:,.1f} {unit}"
    return f"{count:,.0f} B"


def count_text(count: float) -> str:
    """`4.5 G`: a large number in a few letters."""
    for letter, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return f"{count:,.0f}"


def seconds_text(seconds: float) -> str:
    """`0.21 s`, `3.4 s`, `2 min 5 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    return f"{seconds / 3600:,.1f} h"
