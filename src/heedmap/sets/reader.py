"""Opening a set of texts: its tables as Arrow, its maps, and its texts, without torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heedmap.errors import InputError, RunError
from heedmap.runs.manifest import load
from heedmap.runs.schema import MalformedError, short, tensor_name
from heedmap.runs.tensors_file import open_tensors
from heedmap.sets.schema import (
    FORMAT,
    HEADS,
    MAPS,
    PLAN_JSON,
    RUNS,
    SET_JSON,
    SHARDS,
    TABLES,
    TEXTS,
    TOTALS,
    VERSION,
    shard_name,
    way_back,
)

if TYPE_CHECKING:
    import pyarrow as pa

WHERE = "open_set"


def is_set(path: Path) -> bool:
    """Whether a folder says of itself that it is a set of texts, finished or not."""
    try:
        return any(
            load(path / name).get("format") == FORMAT for name in (SET_JSON, PLAN_JSON) if (path / name).exists()
        )
    except (MalformedError, OSError):
        return False


def open_set(path: str | os.PathLike[str]) -> TextSet:
    """Open a set that `heedmap scan` made.

    Raises:
        RunError: the folder is missing, unfinished, truncated, foreign, or written by a newer heedmap.
    """
    return TextSet(Path(path))


class TextSet:
    """What heads do over many texts.

    Attributes:
        path: the folder.
        meta: set.json, as a dictionary.
        heads: (part, layer, head) of each head.
        values: name of each value of a head → its unit.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.meta = _manifest(path)
        self.heads: list[tuple[str, int, int]] = [
            (str(part), int(layer), int(head)) for part, layer, head in self.meta["heads"]
        ]
        self.values: dict[str, str] = dict(self.meta["values"])

    def __repr__(self) -> str:
        model = self.meta["model"].get("name")
        return f"<TextSet {self.path}: {self.meta['texts']:,} texts, {len(self.heads)} heads of {model}>"

    def files(self, table: str) -> list[Path]:
        """The Parquet files of a table: one, or one a shard for `texts` and `heads`. Raises InputError, RunError."""
        if table in TABLES:
            return [self.path / TOTALS / f"{table}.parquet"]
        if table not in (TEXTS, HEADS):
            raise InputError(WHERE, expected=f"a table among {', '.join([TEXTS, HEADS, *TABLES])}", got=repr(table))
        every = [self.path / table / shard_name(number) / "part.parquet" for number in range(self.meta["shards"])]
        missing = {number for number, file in enumerate(every) if not file.exists()}
        for number in sorted(missing):
            if table == TEXTS or not self._measured_nothing(number):
                raise _damaged(self.path, str(every[number].relative_to(self.path)), "none")
        return [file for number, file in enumerate(every) if number not in missing]

    def _measured_nothing(self, shard: int) -> bool:
        """Whether the marker of a shard says that none of its texts could be measured."""
        try:
            return load(self.path / SHARDS / f"{shard_name(shard)}.json").get("texts") == 0
        except (MalformedError, OSError):
            return False

    def _unreadable(self, table: str, error: BaseException) -> RunError:
        """What is said of a table that cannot be read, with the name of the first file that is to blame."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for file in self.files(table):
            try:
                pq.read_table(file, page_checksum_verification=True)
            except (pa.ArrowException, OSError) as found:
                expected = f"the table {table}, whole in {file.relative_to(self.path)},"
                return _damaged(self.path, expected, str(found), way_back(self.path, file))
        return _damaged(self.path, f"the table {table}", str(error))

    def table(
        self,
        name: str,
        *,
        layer: int | None = None,
        head: int | None = None,
        part: str | None = None,
        text: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """One table as Arrow (`docs/sets.md` lists their columns).

        Args:
            name: `means`, `deciles`, `tops`, `profiles`, `entropies`, `kinds`, `types`, over the whole set; `texts`,
                one row a text; `heads`, one row a text and head, which may be large: choose heads and columns.
            layer, head, part: only these heads.
            text: only the text with this number.
            columns: only these columns.

        Raises:
            InputError: no such table or column.
            RunError: a file is damaged.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        wanted = {"part": part, "layer": layer, "head": head}
        asked: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
        if asked and name == TEXTS:
            raise InputError(WHERE, expected="texts without heads", got=", ".join(asked))
        if text is not None:
            asked["text"] = text
        rows: Any = None
        for key, value in asked.items():
            rows = pc.field(key) == value if rows is None else rows & (pc.field(key) == value)
        try:
            checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
            whole = ds.ParquetFileFormat(default_fragment_scan_options=checked)
            source = ds.dataset([str(file) for file in self.files(name)], format=whole)
            for column in columns or ():
                if column not in source.schema.names:
                    raise InputError(
                        WHERE, expected=f"a column among {', '.join(source.schema.names)}", got=repr(column)
                    )
            return source.to_table(columns=None if columns is None else list(columns), filter=rows)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(name, error) from error

    def map(self, layer: int, head: int, part: str | None = None) -> np.ndarray[Any, Any]:
        """The mean map of one head over all texts, float32 `[32, 32]`: how the attention of each thirty-second of a
        text, as a row, is shared out over the thirty-seconds. Raises InputError, RunError."""
        found = [key for key in self.heads if key[1:] == (layer, head) and part in (None, key[0])]
        if len(found) != 1:
            raise InputError(
                WHERE,
                expected=f"one head of this set, {len(self.heads)} in {len({key[:2] for key in self.heads})} layers",
                got=f"{len(found)} heads {layer}.{head}",
                do="give part=" if found else None,
            )
        try:
            tensors = open_tensors(self.path / TOTALS / MAPS)
            own = [key for key in self.heads if key[:2] == found[0][:2]]
            return np.array(tensors[tensor_name(*found[0][:2], "mean")].array[own.index(found[0])])
        except (MalformedError, KeyError, IndexError, OSError) as error:
            way = way_back(self.path, self.path / TOTALS / MAPS)
            raise _damaged(self.path, f"the map of {layer}.{head}", str(error), way) from error

    def stored(self, text: int) -> Path | None:
        """The run of one text where it was stored."""
        path = self.path / RUNS / f"text-{text}"
        return path if path.is_dir() else None


def _manifest(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise RunError(WHERE, expected="the folder of a set", got=f"{path}, which is none", do="check the name")
    try:
        meta = load(path / SET_JSON)
    except FileNotFoundError:
        if is_set(path):
            raise RunError(
                WHERE,
                expected="a finished set",
                got=f"{path}, which is not",
                do="run its `heedmap scan` again: what is done is kept",
            ) from None
        raise RunError(WHERE, expected=f"a set with {SET_JSON}", got=f"{path} without", do="check the name") from None
    except (MalformedError, OSError) as error:
        raise _damaged(path, SET_JSON, str(error)) from error
    if meta.get("format") != FORMAT:
        raise RunError(WHERE, expected="a set that heedmap scan made", got=f"{path}, a {short(meta.get('format'))}")
    if meta.get("version") != VERSION:
        raise RunError(
            WHERE,
            expected=f"a set of format version {VERSION}",
            got=f"version {short(meta.get('version'))} in {path}",
            do="take the heedmap that wrote it",
        )
    _check(path, meta)
    return meta


def _check(path: Path, meta: dict[str, Any]) -> None:
    """Raise RunError for entries of other kinds than the format gives them, or a file of another size."""
    kinds = {"model": dict, "values": dict, "plan": dict, "files": dict, "heads": list, "types": list}
    for name, kind in kinds.items():
        if not isinstance(meta.get(name), kind):
            raise _damaged(path, f"{name} in {SET_JSON}", short(meta.get(name)))
    for name in ("shards", "texts", "refused", "tokens"):
        if type(meta.get(name)) is not int or not 0 <= meta[name] < 2**53:
            raise _damaged(path, f"{name} in {SET_JSON}", short(meta.get(name)))
    for entry in meta["heads"]:
        if not (isinstance(entry, list) and [type(item) for item in entry] == [str, int, int]):
            raise _damaged(path, f"heads in {SET_JSON} as part, layer and number", short(entry))
    if not meta["heads"] or not all(isinstance(unit, str) for unit in meta["values"].values()):
        raise _damaged(path, f"heads and values in {SET_JSON}", "none")
    for name, size in meta["files"].items():
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        if not inside or type(size) is not int:
            raise _damaged(path, f"files inside the set in {SET_JSON}", short(name))
        have = (path / name).stat().st_size if (path / name).is_file() else None
        if have != size:
            raise _damaged(path, f"{name} of {size} bytes", "none" if have is None else f"{have} bytes")


def _damaged(path: Path, expected: str, got: str, do: str = "run its `heedmap scan` again to repair it") -> RunError:
    return RunError(WHERE, expected=f"{expected} in the set {path}", got=got[:200], do=do)
