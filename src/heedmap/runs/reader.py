"""Opening a run: tables as Arrow, maps, and exact weights of any window, without torch and in place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from heedmap.errors import InputError, RunError
from heedmap.runs import formula
from heedmap.runs.checks import check_folder, check_known, damaged
from heedmap.runs.manifest import LayerInfo
from heedmap.runs.schema import (
    COORDINATES,
    INPUTS,
    MAPS,
    RUN_JSON,
    TEXT,
    TEXT_PAIR,
    TOKENS,
    MalformedError,
    table_file,
    tensor_name,
)
from heedmap.runs.selection import Positions, ranges_of, rows_of
from heedmap.runs.tensors_file import Tensor

if TYPE_CHECKING:
    import pyarrow as pa

    from heedmap.runs.tables import TableReader
    from heedmap.runs.words import Words

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run folder that heedmap wrote.

    Checks run.json, the sizes of all files, and the shapes of all tensors, and reads nothing else: tables are read
    and query and key are mapped when they are asked for.

    Raises:
        RunError: the folder is missing, unfinished, truncated, foreign, or written by a newer heedmap.
    """
    return Run(Path(path))


class Run:
    """The results of one look at a text: tokens, statistics by head, query, key and distance, maps, exact weights.

    Attributes:
        path: the folder.
        meta: run.json, as a dictionary.
        layers: every attention layer, as `LayerInfo`.
    """

    def __init__(self, path: Path) -> None:
        contents = check_folder(path)
        self.path = path
        self.meta: dict[str, Any] = contents.meta
        self.layers: list[LayerInfo] = contents.layers
        self._tensors = contents.tensors
        self._files = contents.files
        self._readers: dict[str, TableReader] = {}
        self._words: dict[str, Words] = {}
        self._identity = _identity(path)

    def __repr__(self) -> str:
        model = self.meta["model"].get("name")
        return f"<Run {self.path}: {len(self.heads)} heads of {model}, {self.meta['text'].get('tokens')} tokens>"

    @cached_property
    def text(self) -> str:
        """The original text, to which `start` and `end` of the tokens point."""
        return self._text(TEXT)

    @cached_property
    def text_pair(self) -> str | None:
        """The second text of a pair, to which tokens of segment 1 point; None where there is none."""
        return self._text(TEXT_PAIR) if TEXT_PAIR in self._files else None

    def _file(self, name: str) -> Path:
        """The path of a file that has not been read yet; a run that was replaced meanwhile would answer for another."""
        if _identity(self.path) != self._identity:
            raise RunError(
                "run", expected=f"the run that was opened at {self.path}", got="another one or none", do="open it again"
            )
        return self.path / name

    def _text(self, name: str) -> str:
        try:
            content = self._file(name).read_bytes()
            text = content.decode()
        except (UnicodeDecodeError, OSError) as error:
            raise damaged(self.path, f"{name} as UTF-8 text", str(error)) from error
        recorded = self.meta["text"].get("sha256")
        if name == TEXT and recorded is not None and hashlib.sha256(content).hexdigest() != recorded:
            raise damaged(self.path, f"{name} with the sha256 that {RUN_JSON} records", "another text")
        return text

    @cached_property
    def tokens(self) -> pa.Table:
        """Arrow table, one row a token: `position, id, text, start, end, word, special, segment`."""
        from heedmap.runs.tables import read_tokens

        return self._reading(lambda: read_tokens(self._file(TOKENS)))

    def tokens_of(self, sequence: str = "text") -> pa.Table:
        """The tokens of one sequence, in the order of their positions; a layer names its own (`LayerInfo`).

        A run has several where a decoder reads another text than its encoder: "text" and "target".

        Raises:
            InputError: no such sequence in this run.
        """
        tokens = self.tokens
        if "sequence" not in tokens.column_names:
            names, found = ["text"], tokens
        else:
            column = tokens.column("sequence").to_pylist()
            names = list(dict.fromkeys(column))
            found = tokens.filter([name == sequence for name in column])
        if sequence not in names:
            raise InputError("run.tokens_of", expected=f"a sequence among {', '.join(names)}", got=repr(sequence))
        return found

    @property
    def heads(self) -> list[tuple[str, int, int]]:
        """Every measured head as (part, layer, head)."""
        return [(info.part, info.layer, head) for info in self.layers for head in info.heads]

    def layer(self, layer: int, part: str | None = None) -> LayerInfo:
        """One layer; `part` may be left out where the run has one part only, or one named "self".

        Raises:
            InputError: there is no such part, or no such layer in it (a layer without attention, or not looked at).
        """
        parts = list(dict.fromkeys(info.part for info in self.layers))
        if part is None:
            if len(parts) > 1 and "self" not in parts:
                raise InputError("run.layer", expected=f"a part among {', '.join(parts)}", got="none", do="give part=")
            part = parts[0] if len(parts) == 1 else "self"
        have = {info.layer: info for info in self.layers if info.part == part}
        if not have:
            raise InputError("run.layer", expected=f"a part among {', '.join(parts)}", got=repr(part))
        if layer not in have:
            raise InputError(
                "run.layer",
                expected=f"a layer that was looked at: {ranges_of(sorted(have))}",
                got=repr(layer),
                do="layers are counted from 0 as the model counts them; some have no attention",
            )
        return have[layer]

    def _head(self, layer: int, head: int, part: str | None) -> tuple[LayerInfo, int]:
        info = self.layer(layer, part)
        if head not in info.heads:
            raise InputError(
                "run.layer",
                expected=f"a head of layer {layer} that was looked at: {ranges_of(info.heads)}",
                got=repr(head),
            )
        return info, info.heads.index(head)

    def table(
        self,
        name: str,
        *,
        layer: int | None = None,
        head: int | None = None,
        part: str | None = None,
        columns: Sequence[str] | None = None,
        level: str = "token",
    ) -> pa.Table:
        """One table as Arrow: "head", "query", "key" or "distance" (`docs/format.md` lists their columns).

        Args:
            layer, head, part: only these; only their row groups are read from the disk.
            columns: only these columns.
            level: "word" for the query and the key table with one row a word (`words_of` numbers them), and the columns
                that have a meaning there: those of rows averaged, those of keys summed.

        Raises:
            InputError: no such table, layer, head, part or column in this run.
            RunError: the table is damaged.
        """
        if name not in COORDINATES:
            raise InputError("run.table", expected=f"a table among {', '.join(COORDINATES)}", got=repr(name))
        if table_file(name) not in self._files:
            raise InputError(
                "run.table",
                expected="a table that this run has",
                got=repr(name),
                do=f"look again with statistics grouped by {name}",
            )
        if layer is not None:
            info = self.layer(layer, part)
            part = info.part
            if head is not None:
                self._head(layer, head, part)
        elif not any(part in (None, info.part) and (head is None or head in info.heads) for info in self.layers):
            raise InputError(
                "run.table",
                expected=f"a head that was looked at, of {', '.join(dict.fromkeys(info.part for info in self.layers))}",
                got=" ".join([*([] if part is None else [repr(part)]), *([] if head is None else [f"head {head}"])]),
            )
        if level != "token":
            from heedmap.runs.words import word_table

            return word_table(self, level, name, part, layer, head, columns)
        reader = self._reader(name)
        return self._reading(lambda: reader.read(part, layer, head, columns))

    def _reader(self, name: str) -> TableReader:
        if name not in self._readers:
            from heedmap.runs.tables import TableReader

            self._readers[name] = self._reading(lambda: TableReader(self._file(table_file(name)), name))
        return self._readers[name]

    def _reading(self, read: Callable[[], Result]) -> Result:
        try:
            return read()
        except MalformedError as error:
            raise damaged(self.path, error.expected, error.got) from error

    def map(self, layer: int, head: int, kind: str = "mean", *, part: str | None = None) -> Array:
        """The pooled map of one head, float32 `[R, C]`: `mean` or `max` weight of each cell, as measured.

        Cells split each axis as `numpy.array_split` does: the first n mod R hold one position more.

        Raises:
            InputError: no such layer, head or kind of map in this run.
        """
        info, index = self._head(layer, head, part)
        prefix = tensor_name(info.part, info.layer, "")
        kinds = [name.removeprefix(prefix) for name in self._tensors.get(MAPS, {}) if name.startswith(prefix)]
        if kind not in kinds:
            raise InputError("run.map", expected=f"a map among {', '.join(kinds) or 'none'}", got=repr(kind))
        array = self._tensors[MAPS][prefix + kind].array
        return np.array(array[0 if array.shape[0] == 1 else index])

    def weights(
        self,
        layer: int,
        head: int,
        queries: Positions = None,
        keys: Positions = None,
        *,
        part: str | None = None,
        level: str = "token",
    ) -> Array:
        """Exact attention weights of any window of one head, as the model used them.

            weights[i, j] = exp(score[i, j] − m_i) / l_i

        m and l are the row's maximum and sum over all its keys and its sink, so that a window's rows need not sum to 1.

        Args:
            layer, head: counted from 0 as the model counts them.
            queries, keys: text positions: an integer, a slice, a range, a list or array of integers (negative ones
                count from the end), or an array of booleans; None means all.
            part: "self", "cross" …; may be left out where there is no doubt.
            level: "word" for weights between words (`words_of` numbers them, and `queries` and `keys` are such
                numbers; None means those that have a row, or a key): columns of a word summed, rows averaged (Clark et
                al. 2019).

        Returns:
            float32 `[queries, keys]`, computed in float64. 0 where the mask hides the key, and in rows that may attend
            to nothing; NaN in rows that were left out as padding.

        Raises:
            InputError: a layer, head or position that is not there.
            RunError: the run was written without its inputs.
            UnsupportedError: the formula has a term or a mask that the run could not describe.
        """
        if level == "token":
            return self._window(layer, head, queries, keys, part, "weights")
        from heedmap.runs.words import word_weights

        return word_weights(self, level, layer, head, queries, keys, part)

    def words_of(self, sequence: str = "text") -> Words:
        """The words of one sequence: `.table` has one row a word, `.of_token` says which word each token belongs to."""
        if sequence not in self._words:
            from heedmap.runs.words import Words

            self._words[sequence] = Words(self.tokens_of(sequence), (self.text, self.text_pair or ""))
        return self._words[sequence]

    def scores(
        self, layer: int, head: int, queries: Positions = None, keys: Positions = None, *, part: str | None = None
    ) -> Array:
        """Scores before the softmax: scaled, softcapped, −∞ where the mask hides. Otherwise as `weights`."""
        return self._window(layer, head, queries, keys, part, "scores")

    def raw_scores(
        self, layer: int, head: int, queries: Positions = None, keys: Positions = None, *, part: str | None = None
    ) -> Array:
        """q·k alone, of hidden pairs too; needs no mask that can be described. Otherwise as `weights`."""
        return self._window(layer, head, queries, keys, part, "raw_scores")

    def value_norms(self, layer: int, head: int, keys: Positions = None, *, part: str | None = None) -> Array | None:
        """‖v‖ of each key of one head, float32 `[keys]`: weight times it is the length of what a query reads there.

        None where the run does not hold it, as runs written by earlier versions. Otherwise as `weights`.
        """
        info, _ = self._head(layer, head, part)
        self._inputs(info, "run.value_norms")
        norms = self._tensors[INPUTS].get(tensor_name(info.part, info.layer, "value_norm"))
        rows = rows_of(keys, info.key_offset, info.key_len, where="run.value_norms", name="keys")
        return None if norms is None else np.array(norms.array[head // (info.query_heads // info.key_heads), rows])

    def show(self, *others: Run, height: int = 760) -> Any:
        """Show the run in a notebook: a widget, to be returned from a cell (`pip install 'heedmap[notebook]'`).

        Args:
            others: further runs of the same text, to compare this one with.
            height: of the widget, in CSS pixels.

        Raises:
            UnsupportedError: anywidget is not installed.
        """
        return import_module("heedmap.view.widget").show(self, *others, height=height)

    def _window(
        self, layer: int, head: int, queries: Positions, keys: Positions, part: str | None, wanted: str
    ) -> Array:
        where = f"run.{wanted}"
        info, index = self._head(layer, head, part)
        inputs = self._inputs(info, where)
        if wanted != "raw_scores":
            check_known(info, where)
        rows = rows_of(queries, info.query_offset, info.query_len, where=where, name="queries")
        columns = rows_of(keys, info.key_offset, info.key_len, where=where, name="keys")
        key = inputs["key"].numbers((head // (info.query_heads // info.key_heads), columns)).astype(np.float64)
        at = np.arange(info.query_len)[rows]
        key_positions = np.arange(info.key_len)[columns] + info.key_offset
        result = np.empty((len(at), len(key_positions)), np.float32)
        step = max(1, formula.BLOCK_BYTES // (8 * max(1, len(key_positions))))
        for start in range(0, len(at), step):
            block = at[start : start + step]
            row_max = inputs["row_max"].array[index, block]
            row_sum = inputs["row_sum"].array[index, block]
            values = formula.raw_scores(inputs["query"].numbers((index, block)), key)
            if wanted != "raw_scores":
                may = formula.allowed(info.mask, block + info.query_offset, key_positions)
                values = formula.scores(values, info.scale, info.softcap, may)
            if wanted == "weights":
                values = formula.weights(values, row_max, row_sum)
            values[np.isnan(row_sum)] = np.nan
            with np.errstate(over="ignore"):
                result[start : start + step] = values
        return result

    def _inputs(self, info: LayerInfo, where: str) -> dict[str, Tensor]:
        if not info.inputs:
            raise RunError(
                where,
                expected="a run with its inputs (query and key)",
                got=f"{self.path}, written without those of {info.part} layer {info.layer}",
                do="look at the text again without --no-inputs",
            )
        names = ("query", "key", "row_max", "row_sum")
        return {name: self._tensors[INPUTS][tensor_name(info.part, info.layer, name)] for name in names}


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What tells one run.json from another that takes its place; None where there is none."""
    try:
        found = (path / RUN_JSON).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
