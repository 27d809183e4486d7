"""Parquet files of a run: written one row group for each head, read by row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heedmap.errors import InputError
from heedmap.runs.columns import column_type
from heedmap.runs.schema import COORDINATES, KEY_COLUMNS, TOKEN_COLUMNS, WIDER, MalformedError, short

Array = np.ndarray[Any, Any]

_TYPES: dict[str, pa.DataType] = {
    "int32": pa.int32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
}
_PART = pa.dictionary(pa.int32(), pa.string())
_KEY_FIELDS = [pa.field(name, _PART if kind == "string" else _TYPES[kind], False) for name, kind in KEY_COLUMNS.items()]


class TableWriter:
    """Writes one table; every `append` becomes one row group. Columns that a row group lacks are null in it."""

    def __init__(self, path: Path, table: str) -> None:
        self._path = path
        self._table = table
        self._schema = pa.schema(_KEY_FIELDS)
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self.groups = 0

    def append(self, part: str, layer: int, head: Array | int, columns: Mapping[str, Array]) -> None:
        """Write the rows of one head, or of several where `head` is an array of one number a row."""
        rows = len(next(iter(columns.values()), ()))
        if rows == 0:
            return
        arrays = {name: _column(self._table, name, values) for name, values in columns.items()}
        self._widen({name: array.type for name, array in arrays.items()})
        arrays = {name: _filled(array, self._schema.field(name).type) for name, array in arrays.items()}
        arrays |= {
            "part": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [part]),
            "layer": pa.array(np.full(rows, layer, np.int32)),
            "head": pa.array(np.full(rows, head, np.int32)),
        }
        self._write(pa.table([arrays.get(f.name, pa.nulls(rows, f.type)) for f in self._schema], schema=self._schema))

    def _write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._sink = pa.OSFile(str(self._path), "wb")
            self._writer = open_writer(self._sink, self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self.groups += 1

    def _widen(self, types: Mapping[str, pa.DataType]) -> None:
        """Add columns to the schema, and places to its lists; row groups that are written already are copied, with
        nulls in new columns, and −1 or NaN in new places."""
        coordinate = COORDINATES[self._table]
        have = {field.name: field for field in self._schema}
        longer = {name: pa.field(name, kind) for name, kind in types.items() if name in have and
                  _places(kind) > _places(have[name].type)}  # fmt: skip
        new = [pa.field(name, kind, name != coordinate) for name, kind in types.items() if name not in have]
        if not new and not longer:
            return
        self._schema = pa.schema([*(longer.get(field.name, field) for field in self._schema), *new])
        if self._writer is None:
            return
        self.close()
        earlier = self._path.rename(self._path.with_name(self._path.name + WIDER))
        with pq.ParquetFile(earlier, read_dictionary=["part"]) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                old = {
                    name: _filled(table.column(name).combine_chunks(), self._schema.field(name).type) for name in have
                }
                missing = {field.name: pa.nulls(table.num_rows, field.type) for field in new}
                self._write(pa.table(old | missing, schema=self._schema))
        earlier.unlink()

    def close(self) -> None:
        """Write the footer. A table to which nothing was appended has no file."""
        writer, sink = self._writer, self._sink
        self._writer = self._sink = None
        self.groups = 0
        if writer is not None and sink is not None:
            try:
                writer.close()
            finally:
                sink.close()

    def abandon(self) -> None:
        """Close without finishing; the file is not valid."""
        try:
            self.close()
        except (OSError, pa.ArrowException):  # the disk that refused the data refuses the footer too
            return


def open_writer(sink: pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer with the encodings of a run, which every reader of Parquet knows.

    Numbers compress best with their bytes split (floats) or as differences (integers); Snappy is the one
    compression that readers in a browser have built in. Only the key columns carry minima and maxima, by which row
    groups are found.
    """
    keys: Any = [name for name in KEY_COLUMNS if name in schema.names]
    encodings = {}
    for field in schema:
        if field.name in keys:
            continue
        if pa.types.is_floating(field.type):
            encodings[field.name] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(field.type):
            encodings[field.name] = "DELTA_BINARY_PACKED"
    return pq.ParquetWriter(
        sink,
        schema,
        compression="snappy",
        use_dictionary=keys,
        write_statistics=keys,
        column_encoding=encodings or None,
        write_page_checksum=True,
    )


def _column(table: str, name: str, values: Array) -> pa.Array:
    kind = "int32" if name == COORDINATES[table] else column_type(name, values)
    numbers = np.ascontiguousarray(values.astype(kind, copy=False))
    if numbers.ndim == 1:
        return pa.array(numbers)
    if numbers.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), numbers.shape[1])
    raise MalformedError(f"at most one value or one list a row in column {name}", f"{list(values.shape)}")


def _places(kind: pa.DataType) -> int:
    """Places of a list of fixed length, 0 for single values."""
    return kind.list_size if pa.types.is_fixed_size_list(kind) else 0


def _filled(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of fixed length with more places at their end: −1 for integers, NaN for other numbers."""
    if not 0 < _places(array.type) < _places(kind) or array.null_count:
        return array if array.type == kind or not array.null_count else pa.nulls(len(array), kind)
    numbers = array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), -1)
    wide = np.full((len(array), _places(kind)), -1 if numbers.dtype.kind == "i" else np.nan, dtype=numbers.dtype)
    wide[:, : numbers.shape[1]] = numbers
    return pa.FixedSizeListArray.from_arrays(pa.array(wide.reshape(-1)), _places(kind))


def token_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """The token table from its columns, those of the format first. Raises `MalformedError`."""
    if missing := [name for name in TOKEN_COLUMNS if name not in columns]:
        raise MalformedError(f"token columns {', '.join(TOKEN_COLUMNS)}", f"none of {', '.join(missing)}")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise MalformedError("token columns of one length", f"lengths {sorted(lengths)}")
    names = [*TOKEN_COLUMNS, *(name for name in columns if name not in TOKEN_COLUMNS)]
    try:
        return pa.table({name: pa.array(columns[name], _TYPES.get(TOKEN_COLUMNS.get(name, ""))) for name in names})
    except (pa.ArrowException, UnicodeEncodeError, OverflowError, TypeError, ValueError) as error:
        raise MalformedError("token columns of their types", str(error)) from error


def write_tokens(path: Path, table: pa.Table) -> None:
    """Write the token table in one row group."""
    with pa.OSFile(str(path), "wb") as sink, open_writer(sink, table.schema) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))


class TableReader:
    """One table of an open run, found by head without reading the rest."""

    def __init__(self, path: Path, table: str) -> None:
        """Open the file and index its row groups. Raises `MalformedError`."""
        self._table = table
        self._name = path.name
        with reading(path.name):
            self._file = pq.ParquetFile(path, read_dictionary=["part"], page_checksum_verification=True)
            self._check_columns()
            keys = [] if table == "head" else [self._key(group) for group in range(self._file.num_row_groups)]
        self._groups = {key: group for group, key in enumerate(keys)}
        if len(self._groups) != len(keys):
            raise MalformedError(f"one row group for each head in {path.name}", "several for one head")

    def _check_columns(self) -> None:
        schema = self._file.schema_arrow
        wanted = dict(KEY_COLUMNS)
        if (coordinate := COORDINATES[self._table]) is not None:
            wanted[coordinate] = "int32"
        for name, kind in wanted.items():
            have = schema.field(name).type if name in schema.names else None
            if have != (_PART if name == "part" else _TYPES[kind]):
                raise MalformedError(f"column {name} ({kind}) in {self._name}", f"{have}" if have else "none")

    def _key(self, group: int) -> tuple[str, int, int]:
        metadata = self._file.metadata.row_group(group)
        key = []
        for index, name in enumerate(KEY_COLUMNS):
            statistics = metadata.column(index).statistics
            if metadata.column(index).path_in_schema != name or statistics is None or not statistics.has_min_max:
                raise MalformedError(
                    f"{', '.join(KEY_COLUMNS)} first in {self._name}, with minima and maxima", "otherwise"
                )
            if statistics.min != statistics.max:
                raise MalformedError(f"one head for each row group in {self._name}", f"several in group {group}")
            key.append(statistics.min)
        return key[0], key[1], key[2]

    def read(
        self, part: str | None, layer: int | None, head: int | None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Rows of the heads that match; None matches all. Raises `MalformedError`; InputError for an unknown column."""
        names = self._file.schema_arrow.names
        for name in columns or ():
            if name not in names:
                raise InputError("run.table", expected=f"a column among {', '.join(names)}", got=short(name))
        wanted = (part, layer, head)
        with reading(self._name):
            if self._table != "head":
                found = self._found(part, layer, head)
                return self._file.read_row_groups(found, columns=None if columns is None else list(columns))
            table = self._file.read()
        keep = np.ones(table.num_rows, bool)
        for name, want in zip(KEY_COLUMNS, wanted, strict=True):
            if want is not None:
                keep &= np.array(table.column(name).to_pylist(), dtype=object) == want
        table = table.filter(pa.array(keep, pa.bool_()))
        return table if columns is None else table.select(list(columns))

    def _found(self, part: str | None, layer: int | None, head: int | None) -> list[int]:
        """The row groups of the heads that match."""
        if part is not None and layer is not None and head is not None:  # one of many: nothing to go through
            return [self._groups[part, layer, head]] if (part, layer, head) in self._groups else []
        wanted = (part, layer, head)
        return [
            group
            for key, group in self._groups.items()
            if all(want is None or want == have for want, have in zip(wanted, key, strict=True))
        ]


def read_tokens(path: Path) -> pa.Table:
    """The token table. Raises `MalformedError`."""
    with reading(path.name):
        table = pq.read_table(path, page_checksum_verification=True)
    for name, kind in TOKEN_COLUMNS.items():
        if name not in table.column_names or table.schema.field(name).type != _TYPES[kind]:
            raise MalformedError(f"column {name} ({kind}) in {path.name}", f"columns {', '.join(table.column_names)}")
    return table


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into `MalformedError`."""
    try:
        yield
    except MalformedError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedError(f"{name} as whole Parquet", str(error).split("\n")[0]) from error
