"""One value of every text and head, from the files of the table `heads`: the texts of one head stand together there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heedmap.errors import RunError
from heedmap.sets.schema import way_back

Array = np.ndarray[Any, Any]


def numbers_in(file: Path, heads: int) -> Array:
    """The numbers of the texts of one shard, int64 `[texts]`: those of its first head. Raises RunError."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            texts = opened.metadata.num_rows // heads
            first = next(opened.iter_batches(max(texts, 1), columns=["text"]))
        return first.column(0).to_numpy()[:texts]
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise _damaged(file, error) from error


def values_in(file: Path, name: str, heads: int) -> Array:
    """One value in one shard, float32 `[heads, texts]`. Raises RunError."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            column = opened.read(columns=[name]).column(0).to_numpy()  # null: NaN
        return column.astype(np.float32).reshape(heads, -1)
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise _damaged(file, error) from error


def column(files: Iterable[Path], name: str, heads: int) -> tuple[Array, Array]:
    """One value of all texts, float32 `[heads, texts]`, and their numbers. Raises RunError."""
    parts: Iterator[tuple[Array, Array]] = ((values_in(file, name, heads), numbers_in(file, heads)) for file in files)
    values, numbers = zip(*parts, strict=True)
    return np.concatenate(values, 1), np.concatenate(numbers)


def _damaged(file: Path, error: BaseException) -> RunError:
    return RunError(
        "open_set",
        expected=f"a whole table of heads in {file}",
        got=" ".join(str(error).split())[:200] or type(error).__name__,
        do=way_back(file.parents[2], file),
    )
