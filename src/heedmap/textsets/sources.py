"""Where the texts of a set come from: files, folders of files, Hugging Face data sets; one at a time, never all."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from heedmap.errors import InputError
from heedmap.sets.reader import is_set
from heedmap.textsets.records import Record
from heedmap.textsets.source_files import csv_rows, json_lines, parquet_rows, plain_lines, whole_file

WHERE = "scan"
By = Literal["line", "file"]
_KINDS = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".csv": csv_rows,
    ".tsv": csv_rows,
    ".parquet": parquet_rows,
}
_PLAIN = (".txt", ".text", ".md")
_ON_DISK = ("dataset_info.json", "dataset_dict.json")


@dataclass(frozen=True)
class Texts:
    """What to read, as plain data.

    Attributes:
        where: a file, a folder, or the name of a Hugging Face data set.
        column: the field that holds the text (JSONL, CSV, Parquet, data sets); None for `text`, or the only column.
        by: of plain text: a text a `line` (blank ones part nothing and are passed over) or a `file`; None for lines of
            one file and for whole files of a folder.
        split, subset: of a Hugging Face data set.
        limit: only the first so many.
    """

    where: str
    column: str | None = None
    by: By | None = None
    split: str | None = None
    subset: str | None = None
    limit: int | None = None

    def check(self) -> None:
        """Raise InputError for what can be told to be wrong before anything is read."""
        if self.by is not None and self.by not in get_args(By):
            raise InputError(WHERE, expected=f"by among {', '.join(get_args(By))}", got=repr(self.by))
        if self.limit is not None and self.limit < 1:
            raise InputError(WHERE, expected="a limit of 1 or more texts", got=f"{self.limit}")
        opened(self)

    def check_readable(self) -> None:
        """Read up to the first text. Raises InputError where there is none, as with the name of another column."""
        first, count = None, 0
        for record in self:
            if record.text is not None:
                return
            first, count = first or record, count + 1
        expected = f"texts in {self.where}"
        if first is None:
            raise InputError(WHERE, expected=expected, got="none: there is no text at all")
        problem = first.problem or ""
        raise InputError(
            WHERE,
            expected=expected,
            got=f"{count:,} entries without one; the first, {first.source} {first.place}: {problem}",
            do="name the field with --column" if problem.startswith(("no field", "no text")) else None,
        )

    def __iter__(self) -> Iterator[Record]:
        stream = opened(self)()
        return stream if self.limit is None else itertools.islice(stream, self.limit)


def opened(texts: Texts) -> Callable[[], Iterator[Record]]:
    """What reads these texts. Raises InputError where there is nothing that can be read."""
    if not texts.where.strip():
        raise InputError(WHERE, expected="a file, a folder or a data set of texts", got="an empty name")
    if "\0" in texts.where:
        raise InputError(WHERE, expected="a file, a folder or a data set of texts", got="a name with NUL in it")
    path = Path(os.path.expanduser(texts.where))  # noqa: PTH111 — a name may be too long for a path
    if os.path.isdir(path):  # noqa: PTH112
        if is_set(path):
            raise InputError(WHERE, expected="texts", got=f"the set {texts.where}", do="name what it was made from")
        if any((path / name).is_file() for name in _ON_DISK):
            return lambda: _data_set(texts, path)
        _check_no_split(texts)
        files = _files(path)
        return lambda: (record for file in files for record in _file(texts, file, _short(file, path), alone=False))
    if os.path.exists(path):  # noqa: PTH110
        _check_no_split(texts)
        _check_suffix(path)
        return lambda: _file(texts, path, path.name, alone=True)
    if texts.where.startswith((".", "/", "~")) or path.suffix.lower() in {*_KINDS, *_PLAIN}:
        raise InputError(
            WHERE, expected="a file or folder of texts", got=f"{texts.where}, which does not exist", do="check the name"
        )
    return lambda: _data_set(texts, None)


def _check_no_split(texts: Texts) -> None:
    for name, value in (("--split", texts.split), ("--subset", texts.subset)):
        if value is not None:
            raise InputError(WHERE, expected=f"{name} with a Hugging Face data set", got=f"{name} {value} with files")


def _files(folder: Path) -> list[Path]:
    found = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(".") and file.suffix.lower() in {*_KINDS, *_PLAIN}
    )
    if not found:
        raise InputError(
            WHERE, expected=f"files of texts in {folder} ({', '.join([*_KINDS, *_PLAIN])})", got="none of these"
        )
    return found


def _short(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


def _check_suffix(path: Path) -> None:
    if not path.is_file() or path.suffix.lower() not in {*_KINDS, *_PLAIN}:
        raise InputError(
            WHERE,
            expected=f"texts as {', '.join([*_KINDS, *_PLAIN])}, a folder of these, or a Hugging Face data set",
            got=str(path),
            do="one document of plain text may be named .txt; several texts go best into .jsonl, one object a line",
        )


def _file(texts: Texts, path: Path, name: str, *, alone: bool) -> Iterator[Record]:
    suffix = path.suffix.lower()
    if suffix in _KINDS:
        if texts.by is not None:
            raise InputError(WHERE, expected="--by with plain text only", got=f"--by {texts.by} and {name}")
        return _KINDS[suffix](path, name, texts.column)
    if texts.column is not None:
        raise InputError(
            WHERE, expected="a file with columns for --column", got=f"plain text, {name}", do="leave --column out"
        )
    by_line = texts.by == "line" or (texts.by is None and alone)
    return plain_lines(path, name) if by_line else whole_file(path, name)


def _data_set(texts: Texts, path: Path | None) -> Iterator[Record]:
    from heedmap.textsets.source_datasets import rows

    return rows(texts.where, path, texts.column, texts.split, texts.subset)
