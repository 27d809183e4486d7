"""Which bytes of a run's files belong to which head."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow.parquet as pq

from heedmap.runs.reader import Run
from heedmap.runs.schema import INPUTS, MAPS, TENSOR_TYPES, tensor_name

HeadKey = tuple[str, int, int]
TABLES = ("query.parquet", "key.parquet", "distance.parquet")


class Span(NamedTuple):
    """Bytes `start` to `end` (exclusive) of a file."""

    file: str
    start: int
    end: int


@dataclass
class Ranges:
    """Spans by what they are for.

    Attributes:
        frame: headers and footers, without which no part of a large file can be read.
        tables, maps, inputs: head → its spans. Heads of one key head share the span of their key.
    """

    frame: list[Span] = field(default_factory=list)
    tables: dict[HeadKey, list[Span]] = field(default_factory=lambda: defaultdict(list))
    maps: dict[HeadKey, list[Span]] = field(default_factory=lambda: defaultdict(list))
    inputs: dict[HeadKey, list[Span]] = field(default_factory=lambda: defaultdict(list))


def ranges(run: Run) -> Ranges:
    """The spans of every head of a run."""
    found = Ranges()
    for name in TABLES:
        if name in run.meta["files"]:
            _table(run, name, found)
    for name in (MAPS, INPUTS):
        if name in run.meta["files"]:
            _tensors(run, name, found)
    return found


def _table(run: Run, name: str, found: Ranges) -> None:
    size = run.meta["files"][name]["bytes"]
    with pq.ParquetFile(run.path / name) as file:
        metadata = file.metadata
        reached = 4  # the magic bytes
        for index in range(metadata.num_row_groups):
            columns = [metadata.row_group(index).column(i) for i in range(metadata.num_columns)]
            part, layer, head = (column.statistics.min for column in columns[:3])
            start = min(column.dictionary_page_offset or column.data_page_offset for column in columns)
            end = max(
                (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
                for column in columns
            )
            found.tables[part, layer, head].append(Span(name, start, end))
            reached = max(reached, end)
    found.frame += [Span(name, 0, 4), Span(name, reached, size)]


def _tensors(run: Run, name: str, found: Ranges) -> None:
    with (run.path / name).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    found.frame.append(Span(name, 0, 8 + length))
    for info in run.layers:
        kinds = ("mean", "max") if name == MAPS else ("query", "key", "row_max", "row_sum", "value_norm")
        for kind in kinds:
            entry = header.get(tensor_name(info.part, info.layer, kind))
            if entry is None:
                continue
            count = entry["shape"][0]
            share = math.prod(entry["shape"][1:]) * int(TENSOR_TYPES[entry["dtype"]][-1])
            for index, head in enumerate(info.heads):
                at = head // (info.query_heads // info.key_heads) if kind in ("key", "value_norm") else index
                start = 8 + length + entry["data_offsets"][0] + (0 if count == 1 else at) * share
                spans = found.maps if name == MAPS else found.inputs
                spans[info.part, info.layer, head].append(Span(name, start, start + share))
