"""Texts of Hugging Face data sets, on disk or by name; the `datasets` library is imported here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from heedmap.errors import InputError, UnsupportedError
from heedmap.textsets.records import Record
from heedmap.textsets.source_files import WHERE, chosen

_T = TypeVar("_T")


def rows(name: str, path: Path | None, column: str | None, split: str | None, subset: str | None) -> Iterator[Record]:
    """One text a row of one split.

    Args:
        name: what to call it; `path` its folder, or None for a data set of the hub, which is streamed.

    Raises:
        UnsupportedError: `datasets` is not installed.
        InputError: no such data set, split or column.
    """
    library = _library()
    if path is not None:
        if subset is not None:
            raise InputError(WHERE, expected="--subset with a data set of the hub", got=f"--subset {subset}")
        found = _attempt(name, lambda: library.load_from_disk(str(path)))
        if hasattr(found, "keys"):  # several splits
            found = _split(found, name, split)
        elif split is not None:
            raise InputError(WHERE, expected=f"--split with a data set of several, not {name}", got=f"--split {split}")
    else:
        found = _attempt(name, lambda: library.load_dataset(name, subset, split=split or "train", streaming=True))
    texts = [field for field, kind in (found.features or {}).items() if getattr(kind, "dtype", "").endswith("string")]
    wanted = column if column is not None and not found.features else chosen(texts, column, name, found.features)
    place = 0
    stream = iter(found.select_columns([wanted]))
    while (row := _attempt(name, lambda: next(stream, None))) is not None:
        place += 1
        value = row[wanted]
        text, problem = (value, None) if isinstance(value, str) else (None, f"no text but {type(value).__name__}")
        yield Record(name, place, -1, text, problem)


def _library() -> Any:
    try:
        return import_module("datasets")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            WHERE,
            expected="the package datasets, to read Hugging Face data sets",
            got="none",
            do='pip install "heedmap[datasets]"; for a file or folder check its name',
        ) from error


def _split(found: Any, name: str, split: str | None) -> Any:
    wanted = split or "train"
    if wanted not in found:
        raise InputError(
            WHERE,
            expected=f"a split of {name}, one of {', '.join(found)}",
            got=repr(wanted) if split is not None else "none named",
            do="name it with --split",
        )
    return found[wanted]


def _attempt(name: str, load: Callable[[], _T]) -> _T:
    """Call the library; whatever it says becomes one line."""
    try:
        return load()
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError) as error:
        message = " ".join(str(error).split())[:240]
        raise InputError(
            WHERE,
            expected=f"a file, a folder or a Hugging Face data set {name!r}",
            got=f"{type(error).__name__}: {message}",
            do="check the name; a file of texts ends in .jsonl, .txt, .csv or .parquet",
        ) from error
