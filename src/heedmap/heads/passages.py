"""Which passage each token of a run read: the mass of its attention on named spans, by head, by token, by passage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heedmap.errors import InputError

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

REST = "rest"
"""What is in no passage: special tokens, the text between passages."""
FIRST = "first token"
"""The first token of a passage that begins the text: where heads with nothing to say look, which is no reading."""
TARGET = "target"
"""The text that a decoder beside an encoder reads."""
WHERE = "spans"


@dataclass(frozen=True)
class Readings:
    """What some rows of a run read of its passages.

    Attributes:
        names: the passages; then `first token` where the text begins with a passage, which then goes without it (many
            heads rest their attention there); then `rest` where passages do not overlap: the mass on none of them.
        tokens: how many tokens each of `names` has.
        note: what a reader should know: a first token that could not be told apart from its passage; or "".
        heads: (part, layer, head) of each head.
        which: whose rows: "all", "target", "generated", or the name of a passage.
        positions: position of each row in its own text.
        labels: the token of each row; of generated text and of a target the token that the row led to.
        mass: weight, float32 `[heads, rows, names]`; NaN where a head has no such row.
    """

    names: tuple[str, ...]
    tokens: tuple[int, ...]
    heads: list[tuple[str, int, int]]
    which: str
    positions: np.ndarray
    labels: list[str]
    mass: np.ndarray
    note: str = ""

    @property
    def by_head(self) -> np.ndarray:
        """Mean over rows, `[heads, names]`."""
        return _mean(self.mass, 1)

    @property
    def by_row(self) -> np.ndarray:
        """Mean over heads, `[rows, names]`."""
        return _mean(self.mass, 0)

    def of_head(self, head: tuple[str, int, int]) -> np.ndarray:
        """One head's rows, `[rows, names]`.

        Raises:
            InputError: a head that does not read the text of the passages.
        """
        if head not in self.heads:
            part, layer, number = head
            raise InputError(
                WHERE,
                expected="a head that reads the text of the passages",
                got=f"{part}.{layer}.{number}",
                do=f"ask for one of {', '.join(dict.fromkeys(key[0] for key in self.heads))}",
            )
        return self.mass[self.heads.index(head)]


def passages_of(run: Run) -> dict[str, np.ndarray]:
    """The passages that a run names: their tokens, bool `[tokens]` each.

    Raises:
        InputError: the run names none.
    """
    named = run.meta.get("spans") or {}
    if not named or "span_mass" not in run.meta["statistics"]:
        raise InputError(
            WHERE,
            expected="a run that names passages of its text",
            got=f"{run.path}, which names none",
            do="look at the text with --spans FILE, or with --marked and [[name]] … [[/name]] in it",
        )
    found = {}
    for name in run.meta["statistics"]["span_mass"]["labels"]:
        marks = np.zeros(run.tokens_of().num_rows, dtype=bool)
        for start, stop in named.get(name, ()):
            marks[start:stop] = True
        found[name] = marks
    return found


@dataclass(frozen=True)
class Rows:
    """Rows that one can ask about: which tokens of one sequence, bool `[tokens]`."""

    sequence: str
    marks: np.ndarray
    leads: bool = False
    """Each row is told by the token that it led to, the next one, rather than by its own."""


def row_sets(run: Run) -> dict[str, Rows]:
    """The rows that one can ask about: all of the text, those that led to a decoder's text (`target`) or to what was
    generated, those of a passage.

    Row t is what position t read, and it produced token t + 1. Rows of a decoder's text read the passages by its
    cross-attention.
    """
    return _rows_of_texts(run) | {name: Rows("text", marks) for name, marks in passages_of(run).items()}


def _rows_of_texts(run: Run) -> dict[str, Rows]:
    sets = {"all": Rows("text", np.ones(run.tokens_of().num_rows, dtype=bool))}
    decoded = any(info.query_sequence == TARGET for info in run.layers)
    if decoded:
        marks = np.ones(run.tokens_of(TARGET).num_rows, dtype=bool)
        sets[TARGET] = Rows(TARGET, np.append(marks[1:], False), leads=True)
    wrote = TARGET if decoded else "text"
    if "generated" in run.tokens_of(wrote).column_names:
        produced = run.tokens_of(wrote).column("generated").to_numpy(zero_copy_only=False).astype(bool)
        if produced.any():
            sets["generated"] = Rows(wrote, np.append(produced[1:], False), leads=True)
    return sets


def read_passages(run: Run, which: str | None = None) -> Readings:
    """What the rows of `which` read: "all", "target", "generated", or a passage's name; None for generated text, else a
    target, else all.

    The heads are those whose queries are such rows and whose keys are the text of the passages: of a decoder beside an
    encoder those of its cross-attention.

    Raises:
        InputError: a run without passages, or without such rows, or without heads that read them.
    """
    sets = row_sets(run)
    if which is None:
        which = next((name for name in ("generated", TARGET) if name in sets and _readers(run, sets[name])), "all")
    if which not in sets:
        raise InputError(WHERE, expected=f"rows of {', '.join(sets)}", got=repr(which))
    return _readings(run, which, sets[which])


def _readings(run: Run, which: str, rows: Rows) -> Readings:
    passages, heads = passages_of(run), _readers(run, rows)
    if not heads:
        layers = ", ".join(f"{info.part} {info.layer}" for info in run.layers[:4])
        raise InputError(
            WHERE,
            expected=f"layers in which the rows of {which!r} read the text of the passages",
            got=f"{layers}{' …' if len(run.layers) > 4 else ''}",
            do="look with more layers",
        )
    labels = run.tokens_of(rows.sequence).column("text").to_pylist()
    positions = np.flatnonzero(rows.marks)
    rest = bool(np.sum(list(passages.values()), axis=0).max() <= 1)
    begins = [name for name, marks in passages.items() if marks[0]]
    first = bool(begins) and all(run.layer(layer, part).exact for part, layer, _ in heads)
    names = (*passages, *((FIRST,) if first else ()), *((REST,) if rest else ()))
    mass = np.full((len(heads), len(positions), len(names)), np.nan, dtype=np.float32)
    for index, key in enumerate(heads):
        spans = _of_head(run, key, positions, rest=rest)
        if first:
            part, layer, head = key
            own = _of_first(run, run.layer(layer, part), head, positions)
            for place, name in enumerate(passages):
                if name in begins:
                    spans[:, place] = np.clip(spans[:, place] - own, 0, None)
            spans = np.insert(spans, len(passages), own, axis=1)
        mass[index] = spans
    sizes = [int(marks.sum()) - (first and name in begins) for name, marks in passages.items()]
    in_none = run.tokens_of().num_rows - int(np.any(list(passages.values()), axis=0).sum())
    sizes += [1] * first + [in_none] * rest
    note = f"{begins[0]} holds the first token, where many heads rest their attention" if begins and not first else ""
    return Readings(
        names, tuple(sizes), heads, which, positions, [labels[position + rows.leads] for position in positions], mass,
        note,
    )  # fmt: skip


def _readers(run: Run, rows: Rows) -> list[tuple[str, int, int]]:
    """The heads in which such rows read the text of the passages."""
    return [key for key in run.heads if _reads_text(run.layer(key[1], key[0]), rows.sequence)]


def _reads_text(info: LayerInfo, sequence: str) -> bool:
    same = sequence == "text"
    return info.query_sequence == sequence and info.key_sequence == "text" and info.cross != same


def _of_first(run: Run, info: LayerInfo, head: int, positions: np.ndarray) -> np.ndarray:
    """The weight of the rows at these positions on the first token of the text, exactly; NaN where there is no row."""
    found = np.full(len(positions), np.nan)
    inside = (positions >= info.query_offset) & (positions < info.query_offset + info.query_len)
    found[inside] = 0.0
    if info.key_offset == 0 and inside.any():
        found[inside] = run.weights(info.layer, head, positions[inside], [0], part=info.part)[:, 0]
    return found


def between(run: Run) -> tuple[list[str], list[str], np.ndarray]:
    """What each kind of row reads of each passage, the mean over its rows and all heads that read it.

    Returns:
        Names of the rows (each passage, then `rest`, then `target` and `generated` where there is such text), names of
        the columns (those of `read_passages`), and the mass `[rows, columns]`, NaN where there is none.
    """
    sets, passages = _rows_of_texts(run), passages_of(run)
    read = {rows.sequence: _readings(run, name, rows) for name, rows in sets.items()
            if name != "generated" and _readers(run, rows)}  # fmt: skip
    kinds = {name: Rows("text", marks) for name, marks in passages.items()}
    kinds[REST] = Rows("text", ~np.any(list(passages.values()), axis=0))
    kinds |= {name: rows for name, rows in sets.items() if name != "all"}
    if {TARGET, "generated"} <= set(kinds) and np.array_equal(kinds[TARGET].marks, kinds["generated"].marks):
        del kinds[TARGET]
    kinds = {name: rows for name, rows in kinds.items() if rows.sequence in read}
    columns = list(dict.fromkeys(name for readings in read.values() for name in readings.names))
    table = np.full((len(kinds), len(columns)), np.nan)
    for index, rows in enumerate(kinds.values()):
        readings = read[rows.sequence]
        mass = _mean(readings.by_row[rows.marks[readings.positions]], 0)
        table[index, [columns.index(name) for name in readings.names]] = mass
    return list(kinds), columns, table


def _of_head(run: Run, key: tuple[str, int, int], positions: np.ndarray, *, rest: bool) -> np.ndarray:
    """Mass on each passage (and on the rest) of the rows at these positions, NaN where there is no row."""
    part, layer, head = key
    info = run.layer(layer, part)
    columns = ["position", "span_mass"]
    if rest and info.sinks is not None:
        columns.append("row_mass" if "row_mass" in run.meta["statistics"] else "row_sum")
    table = run.table("query", part=part, layer=layer, head=head, columns=columns)
    own = table.column("position").to_numpy()
    spans = np.stack(table.column("span_mass").to_numpy(zero_copy_only=False)).astype(np.float64)
    if rest:
        whole = np.ones(len(own))
        if info.sinks is not None:
            whole = table.column("row_mass").to_numpy() if "row_mass" in columns else np.full(len(own), np.nan)
        spans = np.column_stack([spans, np.clip(whole - spans.sum(1), 0, None)])
    found = np.full((len(positions), spans.shape[1]), np.nan)
    place = np.searchsorted(own, positions)
    inside = (place < len(own)) & (own[np.minimum(place, len(own) - 1)] == positions)
    found[inside] = spans[place[inside]]
    return found


def _mean(table: np.ndarray, axis: int) -> np.ndarray:
    """The mean without NaN in float64; NaN where nothing is left."""
    said = np.isfinite(table)
    total = np.where(said, table, 0).sum(axis, dtype=np.float64)
    count = said.sum(axis)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
