"""Texts of files, one at a time: lines, whole files, JSON lines, CSV and Parquet rows."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from heedmap.errors import InputError
from heedmap.textsets.records import Record

WHERE = "scan"
DEFAULT = "text"
ROWS = 256
"""Rows of a Parquet file that are held at once."""
LONGEST_LINE = 2**28
"""Bytes of a line beyond which it is passed over and recorded as too long, not held."""
_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what the system or a library says about an unreadable file into one line."""
    try:
        yield
    except (OSError, pa.ArrowException, csv.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
        raise InputError(WHERE, expected="a file of texts that can be read", got=f"{name}: {reason[:200]}") from error


def decoded(content: bytes) -> tuple[str | None, str | None]:
    """A text in UTF-8, or why it is none."""
    try:
        return content.decode(), None
    except UnicodeDecodeError as error:
        return None, f"not UTF-8: byte {content[error.start]:#04x} at place {error.start}"


def plain_lines(path: Path, name: str) -> Iterator[Record]:
    """A text a line; blank lines are none."""
    for place, offset, line in _lines(path, name):
        if line is None:
            yield Record(name, place, offset, None, f"a line of more than {LONGEST_LINE} bytes")
        elif line.strip():
            yield Record(name, place, offset, *decoded(line))


def whole_file(path: Path, name: str) -> Iterator[Record]:
    """The whole file as one text, line ends as \\n, without the last one."""
    with reading(name):
        content = path.read_bytes().removeprefix(_MARK)
    text, problem = decoded(content)
    if text is not None:
        text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    yield Record(name, 1, 0, text, problem)


def json_lines(path: Path, name: str, column: str | None) -> Iterator[Record]:
    """The field `column` of one JSON object a line."""
    wanted = column or DEFAULT
    for place, offset, line in _lines(path, name):
        if line is None:
            yield Record(name, place, offset, None, f"a line of more than {LONGEST_LINE} bytes")
        elif line.strip():
            yield Record(name, place, offset, *_field(line, wanted))


def _field(line: bytes, wanted: str) -> tuple[str | None, str | None]:
    text, problem = decoded(line)
    if text is None:
        return None, problem
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, f"no JSON: {str(error) or 'nested too deeply'}"[:200]
    if not isinstance(entry, dict):
        return None, f"no JSON object but {type(entry).__name__}"
    if wanted not in entry:
        return None, f"no field {wanted!r}; there are {', '.join(map(repr, list(entry)[:8]))}"[:200]
    return _text(entry[wanted], wanted)


def _text(value: object, wanted: str) -> tuple[str | None, str | None]:
    return (value, None) if isinstance(value, str) else (None, f"no text in {wanted!r} but {type(value).__name__}")


def csv_rows(path: Path, name: str, column: str | None) -> Iterator[Record]:
    """The column `column` of a CSV or TSV file with a header line."""
    limit = csv.field_size_limit(LONGEST_LINE)
    try:
        with (
            reading(name),
            path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file,
        ):
            rows = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
            header = next(rows, None)
            if header is None:
                raise InputError(WHERE, expected=f"a header line in {name}", got="an empty file")
            at = header.index(chosen(header, column, name))
            for place, row in enumerate(_whole(rows, name), 1):
                if not row:
                    continue
                if at >= len(row):
                    yield Record(name, place, -1, None, f"a row of {len(row)} fields, fewer than the header has")
                    continue
                yield Record(name, place, -1, *decoded(row[at].encode("utf-8", "surrogateescape")))
    finally:
        csv.field_size_limit(limit)


def _whole(rows: Iterator[list[str]], name: str) -> Iterator[list[str]]:
    """Rows of a CSV file; a quote that is left open would swallow all rows behind it."""
    done = 0
    try:
        for row in rows:
            done += 1
            yield row
    except csv.Error as error:
        raise InputError(
            WHERE,
            expected=f"quotes of {name} in pairs, doubled within a field",
            got=f"in row {done + 1}: {error}",
            do="mend that row, or give the texts as JSONL or Parquet",
        ) from error


def parquet_rows(path: Path, name: str, column: str | None) -> Iterator[Record]:
    """The column `column` of a Parquet file."""
    with reading(name), pq.ParquetFile(path) as file:
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
        wanted = chosen(texts, column, name, file.schema_arrow.names)
        place = 0
        for batch in file.iter_batches(ROWS, columns=[wanted]):
            for value in batch.column(0).to_pylist():
                place += 1
                yield Record(name, place, -1, *_text(value, wanted))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def chosen(columns: Sequence[str], asked: str | None, name: str, every: Sequence[str] | None = None) -> str:
    """The column of texts: the one asked for, `text`, or the only one. Raises InputError."""
    if asked is not None and asked in columns:
        return asked
    if asked is None and DEFAULT in columns:
        return DEFAULT
    if asked is None and len(columns) == 1:
        return columns[0]
    if asked is not None and every is not None and asked in every:
        raise InputError(WHERE, expected=f"a column of texts in {name}", got=f"{asked!r}, which holds something else")
    if not columns:
        others = ", ".join(map(repr, list(every or ())[:12])) or "no column"
        raise InputError(WHERE, expected=f"a column of texts in {name}", got=f"none: there is {others}, not of texts")
    shown = ", ".join(map(repr, list(columns)[:12]))
    raise InputError(
        WHERE,
        expected=f"a column of texts in {name}, one of {shown}",
        got="none named" if asked is None else repr(asked),
        do="name it with --column",
    )


def _lines(path: Path, name: str) -> Iterator[tuple[int, int, bytes | None]]:
    """Number, offset and content of every line without its end; None for one that is too long."""
    with reading(name), path.open("rb") as file:
        place = offset = 0
        while line := file.readline(LONGEST_LINE):
            place += 1
            read = len(line) if line.endswith(b"\n") else len(line) + _rest(file)
            content = None if read > LONGEST_LINE else line.rstrip(b"\r\n")
            if place == 1 and content is not None:
                content = content.removeprefix(_MARK)
            yield place, offset, content
            offset += read


def _rest(file: BinaryIO) -> int:
    """Read on to the end of a line that is too long; how many bytes that was."""
    count = 0
    while piece := file.readline(2**20):
        count += len(piece)
        if piece.endswith(b"\n"):
            break
    return count
