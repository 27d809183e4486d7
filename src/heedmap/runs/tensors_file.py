"""safetensors files that are written as a stream and read in place, bfloat16 included, without torch.

The safetensors header stands first and names every tensor, but a stream learns its tensors one by one. So room for
the header is reserved, filled with spaces (which the format allows), and the header is written into it last.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from heedmap.runs.schema import TENSOR_TYPES, WIDER, MalformedError, short

RESERVED = 64 * 2**10
"""Bytes kept for the length field and the header: about 600 tensors. A longer header costs one copy of the file."""

SMALL = 16 * 2**20
"""Files with less data than this are copied behind a header of exact size: no room is wasted in small runs."""

LONGEST_HEADER = 100_000_000
"""The limit that the safetensors library itself sets."""

Array = np.ndarray[Any, Any]


class TensorFileWriter:
    """Writes tensors one after the other; the file is a valid safetensors file after `close`."""

    def __init__(self, path: Path, reserved: int = RESERVED) -> None:
        self._path = path
        self._reserved = reserved
        self._header: dict[str, dict[str, object]] = {}
        self._end = 0
        self._file: BinaryIO = path.open("xb")
        self._file.seek(reserved)

    def write(self, name: str, array: Array, dtype: str | None = None) -> None:
        """Append one tensor. `dtype="bf16"` says that uint16 values are the bits of bfloat16 numbers.

        The array is written one slice of its first axis at a time, so that a strided one is never copied whole.
        """
        kind = _tensor_type(array.dtype, dtype)
        if name in self._header:
            raise MalformedError("each tensor once", f"{name} again")
        little = np.dtype(TENSOR_TYPES[kind])
        for part in array if array.ndim > 1 else (array,):
            self._file.write(np.ascontiguousarray(part, dtype=little).view(np.uint8).data)
        start, self._end = self._end, self._end + math.prod(array.shape) * little.itemsize
        self._header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, self._end]}

    def close(self) -> None:
        """Write the header and flush the file to the disk."""
        text = json.dumps(self._header, separators=(",", ":")).encode()
        needed = 8 * math.ceil((8 + len(text)) / 8)
        if needed > self._reserved or (needed < self._reserved and self._end < SMALL):
            self._move_data(needed)
        self._file.seek(0)
        self._file.write((self._reserved - 8).to_bytes(8, "little") + text.ljust(self._reserved - 8))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Close without finishing; the file is not valid."""
        with contextlib.suppress(OSError):  # closing flushes what the disk refused before
            self._file.close()

    def _move_data(self, room: int) -> None:
        """Copy the data behind a header of another size."""
        copy = self._path.with_name(self._path.name + WIDER)
        self._file.close()
        with self._path.open("rb") as source:
            self._file = copy.open("xb")
            self._file.seek(room)
            source.seek(self._reserved)
            shutil.copyfileobj(source, self._file, 2**20)
        copy.replace(self._path)
        self._reserved = room


def _tensor_type(have: np.dtype[Any], dtype: str | None) -> str:
    if dtype == "bf16" and have == np.uint16:
        return "BF16"
    for name, numpy_type in TENSOR_TYPES.items():
        if name != "BF16" and dtype is None and np.dtype(numpy_type) == have.newbyteorder("<"):
            return name
    raise MalformedError("float64, float32, float16 or int32 values, or uint16 with dtype='bf16'", f"{have}, {dtype!r}")


@dataclass(frozen=True)
class Tensor:
    """One tensor of an open file: its safetensors type, its shape, and the array in place (bf16 as uint16 bits)."""

    kind: str
    array: Array

    def numbers(self, index: tuple[Any, ...]) -> Array:
        """A part of the tensor as numbers: bfloat16 bits become float32."""
        return numbers(self.array[index]) if self.kind == "BF16" else self.array[index]


def numbers(bits: Array) -> Array:
    """bfloat16 bits as the float32 numbers they stand for: the upper half of a float32 is a bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def open_tensors(path: Path) -> dict[str, Tensor]:
    """Map a safetensors file into memory: name → tensor. Nothing but the header is read.

    Raises:
        MalformedError: the file breaks the safetensors format, is truncated, or holds a type that runs do not use.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or not 2 <= length <= min(LONGEST_HEADER, size - 8):
            raise MalformedError(f"a header within the file's {size} bytes", f"a header of {length} bytes")
        try:
            header = json.loads(file.read(length).decode())
        except (ValueError, RecursionError) as error:
            raise MalformedError("a JSON header", str(error) or "JSON nested too deeply") from error
    if not isinstance(header, dict):
        raise MalformedError("a header with named tensors", short(header))
    header.pop("__metadata__", None)
    entries = {str(name): _entry(str(name), entry) for name, entry in header.items()}
    end = 0
    for name, (_, _, start, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if start != end:
            raise MalformedError(
                "tensors that follow one another without gap or overlap", f"{name} at {start}, not {end}"
            )
        end = stop
    if 8 + length + end != size:
        raise MalformedError(f"{8 + length + end} bytes", f"{size} bytes (truncated or overlong)")
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    return {
        name: Tensor(
            kind, np.ndarray(shape, np.dtype(TENSOR_TYPES[kind]), buffer=whole.data, offset=8 + length + start)
        )
        for name, (kind, shape, start, _) in entries.items()
    }


def _entry(name: str, entry: object) -> tuple[str, tuple[int, ...], int, int]:
    """One header entry, checked: type, shape, first and last byte."""
    if not isinstance(entry, dict):
        raise MalformedError(f"an entry for tensor {short(name)}", short(entry))
    kind: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not isinstance(kind, str) or kind not in TENSOR_TYPES:
        raise MalformedError(f"tensor {short(name)} of a type among {', '.join(TENSOR_TYPES)}", short(kind))
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2 or len(shape) > 32:
        raise MalformedError(f"tensor {short(name)} with a shape and two offsets", short(entry))
    needed = math.prod(shape) * np.dtype(TENSOR_TYPES[kind]).itemsize
    if offsets[1] - offsets[0] != needed:
        raise MalformedError(f"{needed} bytes for tensor {short(name)} {short(shape)}", f"{offsets[1] - offsets[0]}")
    return kind, tuple(shape), offsets[0], offsets[1]


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**53 for item in value)
