"""Runs as one HTML file that needs nothing else, within a number of bytes."""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedmap.errors import InputError, StorageError
from heedmap.heads.telling import head_to_show, telling_heads
from heedmap.runs.reader import Run
from heedmap.runs.schema import INPUTS, MAPS
from heedmap.view import page
from heedmap.view.files import PROFILES, RunFiles, run_names
from heedmap.view.ranges import TABLES, HeadKey, Ranges, Span, ranges

WHERE = "export"
MAX_BYTES = 10_000_000
LONGEST_CHUNK = 2**20
MOST_PRODUCTS = 4 * 2**20 * 64
"""The viewer's own limit (`viewer/src/ui/grids.ts`): larger windows show the pooled map."""

ROOM = 120
"""Bytes that one block costs in the page besides its data: its element and its entry in the index."""


SPARE = 20
"""One part in so many of the room that is left stays empty, since packed neighbours can only be measured afterwards."""


@dataclass(frozen=True)
class Exported:
    """What one run's share of the file holds.

    Attributes:
        name: the run.
        heads: how many heads it has.
        exact: heads with their inputs, of which every weight can be computed.
        tables: how many heads have their rows of the query, key and distance tables.
        note: what was left out, in a sentence; None where nothing was.
    """

    name: str
    heads: int
    exact: tuple[HeadKey, ...]
    tables: int
    note: str | None


def export(
    runs: Sequence[Run],
    out: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    first: Iterable[HeadKey] = (),
) -> list[Exported]:
    """Write runs into one HTML file that works from disk, without a network.

    It always holds the text, the head table and a 64×64 map of every head. Then, while they fit: the tables of every
    head, and maps, query and key head by head, those of `first` before the others, which follow from the most telling.
    Where all tables do not fit into half of the room, every head has its profiles, pooled (`profiles.py`), and each
    head's own tables go with its query and key; what room is left then takes further tables, and maps. Several runs
    share the room evenly.

    Args:
        runs: the runs; one that is shown first, others to compare it with.
        out: the file to write; one that is there is replaced.
        max_bytes: the largest file to write.
        first: heads (part, layer, head) whose weights matter most.

    Raises:
        InputError: even the smallest file is larger than `max_bytes`, or there is no such head.
        StorageError: the file cannot be written.
    """
    wanted = list(dict.fromkeys(first))
    known = {head for run in runs for head in run.heads}
    if missing := [head for head in wanted if head not in known]:
        raise InputError(WHERE, expected="heads of the run", got=", ".join(f"{p} {n}.{h}" for p, n, h in missing))
    names = run_names(runs)
    about = [
        {"name": name, "note": "x" * 1500, "exact": run.heads, "files": {}}
        for name, run in zip(names, runs, strict=True)
    ]
    empty = page.exported_page({"runs": about}, [])
    room = max_bytes - len(empty.encode())
    packs = [_Pack(run, name, index, wanted) for index, (run, name) in enumerate(zip(runs, names, strict=True))]
    least = sum(pack.used for pack in packs)
    if least > room:
        raise InputError(
            WHERE,
            expected=f"room for the text, the head table and small maps, {least + len(empty.encode()):,} bytes",
            got=f"--max-bytes {max_bytes:,}",
            do="allow more bytes",
        )
    for pack in packs:
        pack.fill(pack.used + (room - least) // len(packs))
    index: dict[str, Any] = {"runs": []}
    blocks: list[tuple[str, str]] = []
    for pack in packs:
        files, texts = pack.blocks()
        blocks += texts
        entry: dict[str, Any] = {"name": pack.name, "files": files}
        if pack.result.note is not None:
            entry |= {"note": pack.result.note, "exact": pack.result.exact}
        index["runs"].append(entry)
    _write(Path(out), page.exported_page(index, blocks))
    return [pack.result for pack in packs]


class _Pack:
    """One run's share of the file: chosen spans, and what they cost."""

    def __init__(self, run: Run, name: str, index: int, wanted: Sequence[HeadKey]) -> None:
        self.run = run
        self.name = name
        self._index = index
        self._files = RunFiles(run)
        self._ranges: Ranges = ranges(run)
        self._wanted = [head for head in wanted if head in run.heads]
        self._order = _order(run, self._wanted)
        self._spans: set[Span] = set()
        self._exact: list[HeadKey] = []
        self._tables: set[HeadKey] = set()
        self._profiles = False
        self.used = 0
        held_apart = (*TABLES, MAPS, INPUTS, PROFILES)
        always = [name for name in self._files.names if name not in held_apart]
        # run.json, texts, tokens, head table, what is derived
        self._whole = {name: self._files.size(name) for name in always}
        for name, size in self._whole.items():
            self._take([Span(name, 0, size)])
        self._take(self._ranges.frame)

    def fill(self, limit: int) -> None:
        """Add what fits into `limit` bytes."""
        every = [span for head in self._order for span in self._ranges.tables.get(head, [])]
        if self._try(limit - (limit - self.used) // 2, every):
            self._tables.update(self._order)
        else:
            self._profiles = self._try(limit, [Span(PROFILES, 0, self._files.size(PROFILES))])
        self._add(limit)
        self.used = sum(len(text) + ROOM for _, text in self.blocks()[1])  # neighbours pack better together
        self._add(limit - (limit - self.used) // SPARE)

    def _add(self, limit: int) -> None:
        """Query and key head by head, each with its tables; then tables alone, then maps alone; while they fit."""
        tables, maps, inputs = self._ranges.tables, self._ranges.maps, self._ranges.inputs
        for head in (head for head in self._order if head not in self._exact):
            spans = [*inputs.get(head, []), *([] if head in self._tables else tables.get(head, []))]
            if not self._computes_whole(head):
                spans += maps.get(head, [])
            if not self._try(limit, spans):
                break
            self._tables.add(head)
            if inputs.get(head):
                self._exact.append(head)
        for head in self._order:
            if head not in self._tables and not self._try(limit, tables.get(head, [])):
                break
            self._tables.add(head)
        for head in self._order:
            if head not in self._exact and not self._try(limit, maps.get(head, [])):
                break

    def _computes_whole(self, head: HeadKey) -> bool:
        """Whether the browser computes even the whole matrix at once, so that its pooled map would be of no use."""
        info = self.run.layer(head[1], head[0])
        return bool(self._ranges.inputs.get(head)) and info.query_len * info.key_len * info.head_dim <= MOST_PRODUCTS

    def _try(self, limit: int, spans: Iterable[Span]) -> bool:
        """Take these spans if they fit; otherwise none of them."""
        new = list(dict.fromkeys(span for span in spans if span not in self._spans))
        if sum(span.end - span.start for span in new) > 6 * max(0, limit - self.used):
            return False  # nothing packs so well
        cost = 0
        for span in new:
            cost += self._cost(span)
            if self.used + cost > limit:
                return False
        self._spans.update(new)
        self.used += cost
        return True

    def _take(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self._spans.add(span)
            self.used += self._cost(span)

    def _cost(self, span: Span) -> int:
        data, _ = _packed(self._files.read(span.file, span.start, span.end))
        return 4 * ((len(data) + 2) // 3) + ROOM

    def blocks(self) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """The index of the chosen files, and their bytes as base64, neighbours joined."""
        files: dict[str, Any] = {}
        texts: list[tuple[str, str]] = []
        for file, start, end in _joined(self._spans):
            data, packed = _packed(self._files.read(file, start, end))
            name = f"b{self._index}-{len(texts)}"
            texts.append((name, base64.b64encode(data).decode()))
            entry = files.setdefault(file, {"size": self._files.size(file), "chunks": []})
            entry["chunks"].append([start, end - start, name, int(packed)])
        return files, texts

    @property
    def result(self) -> Exported:
        """What was chosen."""
        return Exported(self.name, len(self._order), tuple(self._exact), len(self._tables), self._note())

    def _note(self) -> str | None:
        """What was left out, in sentences; None where nothing was."""
        heads, exact, tables = len(self._order), len(self._exact), len(self._tables)
        lacks_exact, lacks_tables = bool(self._ranges.inputs) and exact < heads, tables < heads
        mapped = sum(
            head in self._exact or self._spans.issuperset(self._ranges.maps.get(head, [])) for head in self._order
        )
        lacks_maps = mapped < heads and not lacks_exact
        parts = [
            (lacks_exact, exact, "exact weights"),
            (lacks_tables, tables, "the tables"),
            (lacks_maps, mapped, "the full maps"),
        ]
        short = [(count, what) for lacks, count, what in parts if lacks]
        if not short:
            return None
        held = [f"{what} of {n} of {heads} heads" if n else f"no {what.removeprefix('the ')}" for n, what in short]
        some = any(count for count, _ in short)
        named = f"Exact {'is' if exact == 1 else 'are'} {_named(self._exact)}. " if lacks_exact and exact else ""
        missed = [head for head in self._wanted if lacks_exact and head not in self._exact]
        if missed:
            named += f"Of the heads asked for, {_named(missed)} did not fit. "
        rest = "tables" if not lacks_tables else "pooled profiles" if self._profiles else "means"
        return (
            f"To stay within its size, this file holds {' and '.join(held)}. {named}"
            f"{'All other heads have' if some else 'Every head has'} a small map and {rest}."
        )


def _order(run: Run, wanted: Sequence[HeadKey]) -> list[HeadKey]:
    """All heads: those asked for, the one to open first, the most telling of each kind in turn, the others."""
    found = telling_heads(run, top=len(run.heads))
    telling, show = found.values(), head_to_show(found)
    ranked = [
        (best[place].part, best[place].layer, best[place].head)
        for place in range(len(run.heads))
        for best in telling
        if place < len(best)
    ]
    return list(dict.fromkeys([*wanted, *([show] if show else []), *ranked, *run.heads]))


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Neighbouring spans of a file as one, up to a length that unpacks at once."""
    joined: list[Span] = []
    for span in sorted(spans):
        last = joined[-1] if joined else None
        if last and last.file == span.file and last.end == span.start and span.end - last.start <= LONGEST_CHUNK:
            joined[-1] = Span(span.file, last.start, span.end)
        elif span.end > span.start:
            joined.append(span)
    return joined


def _packed(data: bytes) -> tuple[bytes, bool]:
    """The data with gzip where that saves something."""
    small = gzip.compress(data, 6, mtime=0)
    return (small, True) if len(small) < 0.97 * len(data) else (data, False)


def _named(heads: Sequence[HeadKey]) -> str:
    parts = {part for part, _, _ in heads}
    names = [f"{layer}.{head}" if len(parts) == 1 else f"{part} {layer}.{head}" for part, layer, head in heads[:24]]
    return ", ".join(names) + (f" and {len(heads) - 24} more" if len(heads) > 24 else "")


def _write(out: Path, text: str) -> None:
    partial = out.with_name(out.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(out)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StorageError(WHERE, expected=f"to write {out}", got=error.strerror or str(error)) from error
