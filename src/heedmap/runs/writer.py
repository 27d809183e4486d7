"""Writing a run, layer by layer, so that it appears whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from heedmap import __version__
from heedmap.errors import InputError
from heedmap.measurements import Measurements
from heedmap.runs.columns import LayerColumns
from heedmap.runs.folder import PartialFolder, check_target, storage, sync_file
from heedmap.runs.manifest import LayerInfo, dump, plain
from heedmap.runs.reader import Run, open_run
from heedmap.runs.schema import (
    FORMAT,
    INPUTS,
    MAPS,
    NOT_STORED,
    RUN_JSON,
    TEXT,
    TEXT_PAIR,
    TOKENS,
    VERSION,
    MalformedError,
    table_file,
    tensor_name,
)
from heedmap.runs.tables import TableWriter, token_table, write_tokens
from heedmap.runs.tensors_file import TensorFileWriter

WHERE = "RunWriter"
OWN = ("format", "version", "layers", "statistics", "files", "not_finite")
"""Entries of run.json that the writer fills itself."""

Array = np.ndarray[Any, Any]


class RunWriter:
    """Writes one run into `NAME.partial/` and gives it its name when it is whole.

        with RunWriter("runs/cat") as writer:
            writer.source(text)
            writer.tokens(columns)
            writer.layer(entry, measurements, query, key)      # once for each layer, memory of one layer at a time
            run = writer.finish(meta)

    Leaving the block without `finish`, by an error or by Ctrl-C, removes what was written. A process that is killed
    leaves `NAME.partial`, which no reader opens and the next writer of the same name replaces.

    Args:
        path: the folder to make; its parents are made too.
        overwrite: replace a heedmap run that stands there. It keeps its place until the new one is whole.
        keep_inputs: write query and key, from which any window of any matrix can be computed exactly. False ignores
            those that `layer` is given.

    Raises:
        RunError: something stands at `path` that may not be replaced, or another writer is at work there.
        StorageError: from any method, the disk is full or cannot be written to.
        InputError: from any method, data that the format cannot hold.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False, keep_inputs: bool = True) -> None:
        check_target(Path(path), overwrite=overwrite, where=WHERE)
        self.path = Path(os.path.realpath(path))
        self._overwrite = overwrite
        self._keep_inputs = keep_inputs
        self._layers: list[dict[str, Any]] = []
        self._infos: dict[tuple[str, int], LayerInfo] = {}
        self._statistics: dict[str, dict[str, Any]] = {}
        self._source: dict[str, Any] = {}
        self._not_finite: dict[str, str] = {}
        self._tables: dict[str, TableWriter] = {}
        self._tensors: dict[str, TensorFileWriter] = {}
        self._folder: PartialFolder | None = None
        self._token_count: int | None = None

    def __enter__(self) -> Self:
        self._folder = PartialFolder(self.path, where=WHERE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (*self._tables.values(), *self._tensors.values()):
            file.abandon()
        if self._folder is not None:
            self._folder.discard()
            self._folder = None

    @contextmanager
    def _writing(self, method: str) -> Iterator[Path]:
        """The folder to write into; what goes wrong meanwhile becomes an error of heedmap's."""
        if self._folder is None:
            raise InputError(
                f"{WHERE}.{method}",
                expected="a writer that is open",
                got="one that is closed or not entered",
                do="use it as `with RunWriter(path) as writer:` and finish it once, last",
            )
        try:
            with storage(WHERE, self.path):
                yield self._folder.path
        except MalformedError as error:
            raise InputError(f"{WHERE}.{method}", expected=error.expected, got=error.got) from error

    def source(self, text: str, text_pair: str | None = None) -> None:
        """Store the original text, to which the token offsets point, and the second one of a pair."""
        with self._writing("source") as folder:
            for name, content in ((TEXT, text), (TEXT_PAIR, text_pair)):
                if content is not None:
                    try:
                        encoded = content.encode()
                    except UnicodeEncodeError as error:
                        raise MalformedError("text without lone surrogates", repr(content[error.start])) from error
                    _write_bytes(folder / name, encoded)
            self._source = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "characters": len(text)}

    def tokens(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Store the tokens: `position, id, text, start, end, word, special, segment`, one value a token.

        Further columns are stored as they are; `sequence` (text) names the sequence of a token where a run has
        several (an encoder's and a decoder's), which layers name as `query_sequence` and `key_sequence`.
        """
        with self._writing("tokens") as folder:
            table = token_table(columns)
            write_tokens(folder / TOKENS, table)
            sync_file(folder / TOKENS)
            self._token_count = table.num_rows

    def layer(
        self,
        entry: Mapping[str, Any],
        measurements: Measurements,
        query: Array | None = None,
        key: Array | None = None,
        *,
        dtype: str | None = None,
        value_norm: Array | None = None,
    ) -> None:
        """Store one layer's statistics, maps and inputs.

        Args:
            entry: the layer's entry of run.json (`LayerInfo`), but for `inputs`, which the writer knows.
            measurements: of a batch of one; over the layer's `heads`, or over all its query heads.
            query: `[heads, query_len, head_dim]`, of the layer's `heads` or of all its query heads.
            key: `[key_heads, key_len, head_dim]`.
            dtype: "bf16" where query and key hold the bits of bfloat16 numbers as uint16.
            value_norm: `[key_heads, key_len]`, the Euclidean length of each value; kept with query and key.
        """
        with self._writing("layer") as folder:
            if (query is None) != (key is None):
                raise MalformedError("query and key together", "one of them")
            keep = self._keep_inputs and query is not None
            body = plain({**entry, "inputs": keep}, f"layers.{len(self._layers)}", self._not_finite)
            info = LayerInfo.from_entry(body)
            if (info.part, info.layer) in self._infos:
                raise MalformedError("each layer of a part once", f"{info.part} {info.layer} again")
            columns = LayerColumns(measurements, info)
            if keep and query is not None and key is not None:
                query = _checked(info, query, key)
                self._write_inputs(folder, info, columns, query, key, dtype)
                if value_norm is not None:
                    self._write_value_norm(folder, info, value_norm)
            self._write_tables(folder, info, columns)
            maps = columns.maps()
            for kind, values in maps.items():
                self._tensor_file(folder, MAPS).write(tensor_name(info.part, info.layer, kind), values)
            for name in (name for name in measurements if name not in NOT_STORED):
                quantity = measurements.quantity(name)
                self._statistics[name] = {"axis": quantity.axis, "unit": quantity.unit}
                if quantity.over_rows != "none":
                    self._statistics[name]["over_rows"] = quantity.over_rows
                if quantity.labels:
                    self._statistics[name]["labels"] = list(quantity.labels)
            self._infos[info.part, info.layer] = info
            self._layers.append(body)

    def _write_tables(self, folder: Path, info: LayerInfo, columns: LayerColumns) -> None:
        heads: list[dict[str, int | float | Array]] = []
        for index, head in enumerate(info.heads):
            self._table(folder, "query").append(info.part, info.layer, head, columns.query(index))
            self._table(folder, "key").append(info.part, info.layer, head, columns.key(index))
            self._table(folder, "distance").append(info.part, info.layer, head, columns.distance(index))
            heads.append(columns.head(index))
        names = dict.fromkeys(name for row in heads for name in row)
        counted = [int(row["rows"]) - int(row["rows_empty"]) for row in heads]
        table = {
            name: np.array([row.get(name, rows) for row, rows in zip(heads, counted, strict=True)]) for name in names
        }
        self._table(folder, "head").append(info.part, info.layer, np.array(info.heads), table)

    def _write_inputs(
        self, folder: Path, info: LayerInfo, columns: LayerColumns, query: Array, key: Array, dtype: str | None
    ) -> None:
        file = self._tensor_file(folder, INPUTS)
        file.write(tensor_name(info.part, info.layer, "query"), query, dtype)
        file.write(tensor_name(info.part, info.layer, "key"), key, dtype)
        row_max, row_sum = columns.softmax()
        file.write(tensor_name(info.part, info.layer, "row_max"), row_max)
        file.write(tensor_name(info.part, info.layer, "row_sum"), row_sum)

    def _write_value_norm(self, folder: Path, info: LayerInfo, value_norm: Array) -> None:
        wanted = (info.key_heads, info.key_len)
        if value_norm.shape != wanted:
            raise MalformedError(f"value_norm [key_heads, key_len] = {list(wanted)}", f"{list(value_norm.shape)}")
        name = tensor_name(info.part, info.layer, "value_norm")
        self._tensor_file(folder, INPUTS).write(name, value_norm.astype(np.float32, copy=False))

    def _table(self, folder: Path, table: str) -> TableWriter:
        if table not in self._tables:
            self._tables[table] = TableWriter(folder / table_file(table), table)
        return self._tables[table]

    def _tensor_file(self, folder: Path, name: str) -> TensorFileWriter:
        if name not in self._tensors:
            self._tensors[name] = TensorFileWriter(folder / name)
        return self._tensors[name]

    def finish(self, meta: Mapping[str, Any]) -> Run:
        """Write run.json, flush everything to the disk, give the folder its name, and open it.

        Args:
            meta: the other entries of run.json: model, text, self_check, cost, versions, command; `heedmap` (its
                version), `created` (now) and the text's `sha256` and `characters` are filled in where they are absent.
        """
        if taken := [name for name in OWN if name in meta]:
            raise InputError(f"{WHERE}.finish", expected="entries that are not the writer's own", got=", ".join(taken))
        with self._writing("finish") as folder:
            if self._token_count is None or not self._infos or not self._source:
                raise MalformedError("a source, tokens and at least one layer", "a run without one of them")
            for table, file in self._tables.items():
                file.close()
                if (folder / table_file(table)).exists():
                    sync_file(folder / table_file(table))
            for tensors in self._tensors.values():
                tensors.close()
            _write_bytes(folder / RUN_JSON, dump(self._complete(meta, folder), self._not_finite))
            assert self._folder is not None
            self._folder.publish(overwrite=self._overwrite)
            self._folder = None
        return open_run(self.path)

    def _complete(self, meta: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        text = {"tokens": self._token_count, "truncated_from": None} | self._source | dict(meta.get("text") or {})
        names = sorted(item.name for item in folder.iterdir())
        return {
            "format": FORMAT,
            "version": VERSION,
            "heedmap": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": None,
            "model": {},
            "self_check": None,
            "cost": {},
            "versions": {},
            **meta,
            "text": text,
            "statistics": self._statistics,
            "layers": self._layers,
            "files": {name: {"bytes": (folder / name).stat().st_size} for name in names},
        }


def _checked(info: LayerInfo, query: Array, key: Array) -> Array:
    """The query of the measured heads, after a check of both shapes."""
    wanted_key = (info.key_heads, info.key_len, info.head_dim)
    if key.shape != wanted_key:
        raise MalformedError(f"key [key_heads, key_len, head_dim] = {list(wanted_key)}", f"{list(key.shape)}")
    if query.dtype != key.dtype:
        raise MalformedError("query and key of one dtype", f"{query.dtype} and {key.dtype}")
    sizes = (info.query_len, info.head_dim)
    if query.shape == (info.query_heads, *sizes) and len(info.heads) < info.query_heads:
        return query[list(info.heads)]
    if query.shape != (len(info.heads), *sizes):
        raise MalformedError(
            f"query [heads, query_len, head_dim] = {[len(info.heads), *sizes]}", f"{list(query.shape)}"
        )
    return query


def _write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole and flush it to the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
