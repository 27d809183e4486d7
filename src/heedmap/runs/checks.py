"""What a reader must check before it trusts a run folder; every refusal is one RunError that names the file."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedmap.errors import RunError, UnsupportedError
from heedmap.runs import formula
from heedmap.runs.entries import check_entries
from heedmap.runs.folder import PARTIAL, replaced_path
from heedmap.runs.manifest import LayerInfo, file_sizes, load
from heedmap.runs.schema import (
    FORMAT,
    INPUTS,
    MAPS,
    RUN_JSON,
    TEXT,
    TOKENS,
    VERSION,
    MalformedError,
    short,
    table_file,
    tensor_name,
)
from heedmap.runs.tensors_file import Tensor, open_tensors

WHERE = "open_run"


@dataclass(frozen=True)
class Contents:
    """A run whose outside is sound: its run.json, layers, files with their sizes, and mapped tensors."""

    meta: dict[str, Any]
    layers: list[LayerInfo]
    files: dict[str, int]
    tensors: dict[str, dict[str, Tensor]]


def damaged(path: Path, expected: str, got: str) -> RunError:
    """The error for a run that is not what its writer left."""
    return RunError(
        WHERE,
        expected=f"{expected} in {path}",
        got=got,
        do="the run is damaged or was changed; copy it anew or look at the text again",
    )


def check_folder(path: Path) -> Contents:
    """Everything that can be checked without reading tables or tensors. Raises RunError."""
    _check_place(path)
    try:
        meta = load(path / RUN_JSON)
    except MalformedError as error:
        raise damaged(path, f"{error.expected} for {RUN_JSON}", error.got) from error
    except OSError as error:
        raise damaged(path, f"a readable {RUN_JSON}", error.strerror or str(error)) from error
    _check_version(path, meta)
    try:
        check_entries(meta)
        files = file_sizes(meta)
        _check_files(path, files)
        layers = _layers(meta)
        tensors = {name: _open(path, name) for name in (MAPS, INPUTS) if name in files}
        for info in layers:
            _check_tensors(info, tensors)
    except MalformedError as error:
        raise damaged(path, error.expected, error.got) from error
    except OSError as error:
        raise damaged(path, "files that can be read", error.strerror or str(error)) from error
    return Contents(meta, layers, files, tensors)


def _check_place(path: Path) -> None:
    if path.name.endswith(PARTIAL):
        raise RunError(
            WHERE,
            expected="a whole run",
            got=f"{path}, which is being written or was interrupted",
            do="open it under its final name once it is whole, or look at the text again",
        )
    if not path.exists():
        waiting = replaced_path(path)
        raise RunError(
            WHERE,
            expected="a run folder",
            got=f"{path}, where nothing is",
            do=f"the run that stood there is at {waiting}; rename it back" if waiting.is_dir() else None,
        )
    if not path.is_dir():
        raise RunError(WHERE, expected="a run folder", got=f"{path}, which is a file")
    if not (path / RUN_JSON).exists():
        raise RunError(
            WHERE,
            expected=f"a run folder with its {RUN_JSON}",
            got=f"{path}, which has none",
            do="give the folder that `heedmap look --out` wrote",
        )


def _check_version(path: Path, meta: dict[str, Any]) -> None:
    version = meta.get("version")
    if meta.get("format") != FORMAT:
        got = f"format {short(meta['format'])}" if "format" in meta else "no format"
        raise RunError(WHERE, expected=f"format {FORMAT!r} in {path / RUN_JSON}", got=got, do="name a heedmap run")
    if type(version) is not int or version < 1:
        raise RunError(WHERE, expected=f"a format version from 1 in {path / RUN_JSON}", got=short(version))
    if version > VERSION:
        raise RunError(
            WHERE,
            expected=f"a run of format version {VERSION} or older",
            got=f"version {version} in {path}, written by heedmap {short(meta.get('heedmap'))}",
            do="update heedmap",
        )


def _check_files(path: Path, files: dict[str, int]) -> None:
    for name in (TEXT, TOKENS, table_file("head"), table_file("query")):
        if name not in files:
            raise MalformedError(f"{name} among the files", f"{', '.join(sorted(files)) or 'none'}")
    for name, size in files.items():
        try:
            found = (path / name).lstat()
        except FileNotFoundError:
            raise MalformedError(f"{name} ({size} bytes)", "no such file") from None
        if not stat.S_ISREG(found.st_mode):
            raise MalformedError(f"{name} as a plain file", "a link, a folder or a device")
        if found.st_size != size:
            raise MalformedError(f"{name} of {size} bytes", f"{found.st_size} bytes")


def _layers(meta: dict[str, Any]) -> list[LayerInfo]:
    entries = meta.get("layers")
    if not isinstance(entries, list) or not entries:
        raise MalformedError(f"layers in {RUN_JSON}", short(entries))
    layers = [LayerInfo.from_entry(entry) for entry in entries]
    if len({(info.part, info.layer) for info in layers}) != len(layers):
        raise MalformedError("each layer of a part once", "one of them twice")
    return layers


def _open(path: Path, name: str) -> dict[str, Tensor]:
    try:
        return open_tensors(path / name)
    except MalformedError as error:
        raise MalformedError(f"{error.expected} in {name}", error.got) from error


def _check_tensors(info: LayerInfo, tensors: dict[str, dict[str, Tensor]]) -> None:
    """Shapes and types of one layer's tensors."""
    heads = len(info.heads)
    if info.inputs:
        have = tensors.get(INPUTS, {})
        _expect(have, info, "query", (heads, info.query_len, info.head_dim), None)
        _expect(have, info, "key", (info.key_heads, info.key_len, info.head_dim), None)
        _expect(have, info, "row_max", (heads, info.query_len), "F32")
        _expect(have, info, "row_sum", (heads, info.query_len), "F32")
        if tensor_name(info.part, info.layer, "value_norm") in have:
            _expect(have, info, "value_norm", (info.key_heads, info.key_len), "F32")
    prefix = tensor_name(info.part, info.layer, "")
    for name, tensor in tensors.get(MAPS, {}).items():
        if not name.startswith(prefix):
            continue
        shape = tensor.array.shape
        fits = len(shape) == 3 and shape[0] in (1, heads) and shape[1] <= info.query_len and shape[2] <= info.key_len
        if not fits or tensor.kind not in ("F32", "I32"):
            raise MalformedError(f"map {name} [{heads}, R, C] in {MAPS}", f"{tensor.kind} {list(shape)}")


def _expect(have: dict[str, Tensor], info: LayerInfo, what: str, shape: tuple[int, ...], kind: str | None) -> None:
    name = tensor_name(info.part, info.layer, what)
    if name not in have:
        raise MalformedError(f"tensor {name} in {INPUTS}", "none")
    tensor = have[name]
    if tensor.array.shape != shape or (tensor.kind != kind if kind else tensor.kind == "I32"):
        raise MalformedError(f"{name} {list(shape)} in {INPUTS}", f"{tensor.kind} {list(tensor.array.shape)}")


def check_known(info: LayerInfo, where: str) -> None:
    """Raise UnsupportedError where the run does not describe the whole formula."""
    why = formula.why_opaque(info.mask)
    if why is None and info.unknown_terms:
        why = f"the formula has {', '.join(info.unknown_terms)}, which this heedmap does not know"
    if why is not None:
        raise UnsupportedError(
            where,
            expected=f"a formula that the run describes, for {info.part} layer {info.layer}",
            got=why,
            do="the pooled map and the tables are exact all the same",
        )
