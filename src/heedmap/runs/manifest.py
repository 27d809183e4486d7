"""`run.json`: what a run says about itself, written without NaN and read with distrust."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heedmap.runs.formula import check_mask, why_opaque
from heedmap.runs.schema import FORMAT, PART, REQUIREMENTS, RUN_JSON, MalformedError, short

LARGEST = 64 * 2**20


@dataclass(frozen=True)
class LayerInfo:
    """One attention layer of a run: what its numbers are about and the whole formula between query and key.

    `part` and `layer` name it (`self`, 5), `module` is its name in the model. `heads` lists the measured heads, in the
    order of the first axis of the layer's tensors. Positions are text positions: queries start at `query_offset`, keys
    at `key_offset`. `mask` describes the mask as plain data; `requires` names terms of the formula that this format
    version does not know, which turn exact windows off.
    """

    part: str
    layer: int
    module: str
    query_heads: int
    key_heads: int
    heads: tuple[int, ...]
    head_dim: int
    query_len: int
    key_len: int
    query_offset: int
    key_offset: int
    scale: float
    softcap: float | None
    sinks: tuple[float | None, ...] | None
    mask: Mapping[str, Any]
    cross: bool
    kernel: str
    inputs: bool
    query_sequence: str = "text"
    key_sequence: str = "text"
    requires: tuple[str, ...] = ()

    @property
    def unknown_terms(self) -> tuple[str, ...]:
        """Terms of the formula that this heedmap cannot evaluate."""
        return tuple(sorted(set(self.requires) - REQUIREMENTS))

    @property
    def exact(self) -> bool:
        """Whether any window of its weights is exact: its inputs are kept, and the whole formula is described."""
        return self.inputs and not self.unknown_terms and why_opaque(self.mask) is None

    @classmethod
    def from_entry(cls, entry: object) -> LayerInfo:
        """Check one entry of `layers` in run.json. Raises `MalformedError`."""
        if not isinstance(entry, Mapping):
            raise MalformedError("a layer as an object", short(entry))
        take = _Taker(entry)
        info = cls(
            part=take.text("part"),
            layer=take.integer("layer", 0),
            module=take.text("module"),
            query_heads=take.integer("query_heads", 1),
            key_heads=take.integer("key_heads", 1),
            heads=tuple(take.integers("heads")),
            head_dim=take.integer("head_dim", 1),
            query_len=take.integer("query_len", 1),
            key_len=take.integer("key_len", 1),
            query_offset=take.integer("query_offset", 0),
            key_offset=take.integer("key_offset", 0),
            scale=take.number("scale"),
            softcap=None if entry.get("softcap") is None else take.number("softcap"),
            sinks=take.sinks(),
            mask=take.mapping("mask"),
            cross=take.flag("cross"),
            kernel=take.text("kernel"),
            inputs=take.flag("inputs"),
            query_sequence=take.text("query_sequence", "text"),
            key_sequence=take.text("key_sequence", "text"),
            requires=tuple(take.texts("requires")),
        )
        info._check()
        return info

    def _check(self) -> None:
        check_mask(self.mask)
        if not PART.fullmatch(self.part):
            raise MalformedError("a part of letters, digits, '_', '-' and '.'", short(self.part))
        if self.query_heads % self.key_heads:
            raise MalformedError("query_heads as a multiple of key_heads", f"{self.query_heads} and {self.key_heads}")
        ascending = sorted(set(self.heads))
        if list(self.heads) != ascending or not ascending or ascending[0] < 0 or ascending[-1] >= self.query_heads:
            raise MalformedError(f"ascending heads from 0 to {self.query_heads - 1}", short(list(self.heads)))
        if self.softcap is not None and self.softcap <= 0:
            raise MalformedError("a positive softcap", short(self.softcap))
        if self.sinks is not None and len(self.sinks) != self.query_heads:
            raise MalformedError(f"{self.query_heads} sinks", f"{len(self.sinks)}")


class _Taker:
    """Typed access to the fields of one JSON object."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry

    def text(self, name: str, default: str | None = None) -> str:
        value = self._entry.get(name, default)
        if not isinstance(value, str):
            raise MalformedError(f"{name} as text", short(value))
        return value

    def flag(self, name: str) -> bool:
        value = self._entry.get(name)
        if not isinstance(value, bool):
            raise MalformedError(f"{name} true or false", short(value))
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self._entry.get(name)
        if not isinstance(value, Mapping):
            raise MalformedError(f"{name} as an object", short(value))
        return value

    def integer(self, name: str, least: int) -> int:
        value = self._entry.get(name)
        if type(value) is not int or not least <= value < 2**31:
            raise MalformedError(f"{name} as an integer ≥ {least}", short(value))
        return value

    def integers(self, name: str) -> list[int]:
        value = self._entry.get(name)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise MalformedError(f"{name} as a list of integers", short(value))
        return value

    def texts(self, name: str) -> list[str]:
        value = self._entry.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise MalformedError(f"{name} as a list of texts", short(value))
        return value

    def number(self, name: str) -> float:
        value: Any = self._entry.get(name)
        if not _is_number(value):
            raise MalformedError(f"{name} as a number", short(value))
        return float(value)

    def sinks(self) -> tuple[float | None, ...] | None:
        value = self._entry.get("sinks")
        if value is None:
            return None
        if not isinstance(value, list) or not all(item is None or _is_number(item) for item in value):
            raise MalformedError("sinks as a list of numbers", short(value))
        return tuple(None if item is None else float(item) for item in value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def plain(value: object, path: str, not_finite: dict[str, str]) -> Any:
    """A value as JSON can hold it; NaN and ±∞ become null and are noted under their path in `not_finite`.

    Raises:
        MalformedError: something that JSON has no form for.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        not_finite[path] = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return None
    if isinstance(value, Mapping):
        within = f"{path}." if path else ""
        return {str(name): plain(item, f"{within}{name}", not_finite) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}.{index}", not_finite) for index, item in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    raise MalformedError(f"plain data at {path}", type(value).__name__)


def dump(meta: Mapping[str, Any], noted: Mapping[str, str]) -> bytes:
    """run.json as bytes. Numbers that JSON cannot hold are null, and `not_finite` says which they were.

    `noted` holds those of entries that went through `plain` before.
    """
    not_finite = dict(noted)
    body = plain(meta, "", not_finite)
    if not_finite:
        body["not_finite"] = not_finite
    text = json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        return (text + "\n").encode()
    except UnicodeEncodeError as error:
        raise MalformedError("text without lone surrogates", short(error.object[error.start : error.end])) from error


def load(path: Path) -> dict[str, Any]:
    """Read a run.json as an object. Raises `MalformedError`, or OSError."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for without end
        raise MalformedError("a plain file", "a link, a folder or a device")
    if found.st_size > LARGEST:
        raise MalformedError(f"at most {LARGEST} bytes", f"{found.st_size}")
    try:
        meta = json.loads(path.read_bytes().decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise MalformedError("JSON", str(error) or "JSON nested too deeply") from error
    if not isinstance(meta, dict):
        raise MalformedError("a JSON object", short(meta))
    return meta


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant}, which is no JSON")


def is_run(path: Path) -> bool:
    """Whether a folder says of itself that it is a heedmap run, of any version."""
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        return load(path / RUN_JSON).get("format") == FORMAT
    except (MalformedError, OSError):
        return False


def listed_files(path: Path) -> set[str]:
    """The names of the files that a run lists, none where it cannot be read."""
    try:
        return set(file_sizes(load(path / RUN_JSON)))
    except (MalformedError, OSError):
        return set()


def file_sizes(meta: Mapping[str, Any]) -> dict[str, int]:
    """The files that a run lists, with their sizes in bytes. Raises `MalformedError` on a name that leads elsewhere."""
    files = meta.get("files")
    if not isinstance(files, dict):
        raise MalformedError("files as an object", short(files))
    sizes: dict[str, int] = {}
    for name, entry in files.items():
        if not name or name.startswith(".") or set(name) & set("/\\:\0") or name == RUN_JSON:
            raise MalformedError("plain file names inside the folder", short(name))
        size = entry.get("bytes") if isinstance(entry, dict) else None
        if type(size) is not int or size < 0:
            raise MalformedError(f"the size of {name} in bytes", short(entry))
        sizes[name] = size
    return sizes
