"""Files of a set appear whole or not at all: written beside their place, flushed, renamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heedmap.errors import RunError
from heedmap.runs.folder import PARTIAL, storage, sync_folder
from heedmap.runs.manifest import dump, load
from heedmap.runs.schema import MalformedError

if sys.platform != "win32":
    import fcntl

WHERE = "scan"


def put(path: Path, content: bytes) -> None:
    """Write a file that is there with all its bytes or not there, whatever happens; an earlier one is replaced.

    Raises:
        StorageError: the disk is full or may not be written to.
    """
    partial = path.with_name(path.name + PARTIAL)
    with storage(WHERE, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)


def put_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document; numbers that JSON cannot hold are null and named in `not_finite`."""
    put(path, dump(document, {}))


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON document, None where there is none. Raises `RunError` for one that cannot be read."""
    try:
        return load(path)
    except FileNotFoundError:
        return None
    except (MalformedError, OSError) as error:
        raise RunError(WHERE, expected=f"{path} as heedmap wrote it", got=str(error)) from error


def parquet(table: pa.Table, row_group: int = 2**16) -> bytes:
    """A table as the bytes of a Parquet file, the same for the same table."""
    sink = pa.BufferOutputStream()
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    others = [field.name for field in table.schema if field.name not in floats]
    columns: dict[str, Any] = {"use_dictionary": others, "use_byte_stream_split": floats}
    pq.write_table(table, sink, row_group, compression="zstd", write_page_checksum=True, **columns)
    return sink.getvalue().to_pybytes()


def digest(content: bytes) -> str:
    """What a file is recognised by."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep other writers out of a set; the lock goes when its process does, however it ends."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                WHERE,
                expected=f"to be the only writer of {folder}",
                got="another one at work there",
                do="wait for it or choose another folder",
            ) from None
        yield
    finally:
        os.close(handle)
