"""The run format as data: file names, tables, columns, types and units. `docs/format.md` is its prose."""

from __future__ import annotations

import re

FORMAT = "heedmap-run"
VERSION = 1

RUN_JSON = "run.json"
TEXT = "text.txt"
TEXT_PAIR = "text_pair.txt"
TOKENS = "tokens.parquet"
MAPS = "maps.safetensors"
INPUTS = "inputs.safetensors"
WIDER = ".wider"
"""Ending of a file that is being copied to gain columns or room for its header; none is left in a whole run."""

COORDINATES: dict[str, str | None] = {"head": None, "query": "position", "key": "position", "distance": "distance"}
"""Table → the column that says which row of its axis this is; `head` has one row for each head."""

KEY_COLUMNS = {"part": "string", "layer": "int32", "head": "int32"}
"""The columns that every table begins with; together they name one head's matrix."""

TOKEN_COLUMNS = {
    "position": "int32",
    "id": "int32",
    "text": "string",
    "start": "int32",
    "end": "int32",
    "word": "int32",
    "special": "bool",
    "segment": "int32",
}
"""The columns of `tokens.parquet`; further ones may follow."""

NOT_STORED = frozenset({"row_valid", "distances", "map_sum"})
"""Measurements that the tables and maps hold in another form: as rows, as a coordinate, as mean and area."""

TENSOR_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4"}
"""safetensors type → NumPy type; bfloat16 has no NumPy type and is read through its 16 bits."""

PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")

REQUIREMENTS: frozenset[str] = frozenset()
"""Terms of the formula, beyond those of version 1, that this heedmap can evaluate."""


def table_file(table: str) -> str:
    """`query` → `query.parquet`."""
    return f"{table}.parquet"


FILES = frozenset({RUN_JSON, TEXT, TEXT_PAIR, TOKENS, MAPS, INPUTS, *map(table_file, COORDINATES)})
"""Every file that a run of this version may hold."""


def tensor_name(part: str, layer: int, what: str) -> str:
    """The name of one tensor of one layer in a safetensors file: `self.5.query`."""
    return f"{part}.{layer}.{what}"


class MalformedError(ValueError):
    """Data that break the format; whoever reads or writes a run turns it into its own error."""

    def __init__(self, expected: str, got: str) -> None:
        self.expected = expected
        self.got = got
        super().__init__(f"expected {expected}, got {got}")


def short(value: object) -> str:
    """A value's representation, cut to one line's worth."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
