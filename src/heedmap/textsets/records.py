"""One text of a set as its source gives it, and the shards that a stream of them is cut into."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CHARACTERS = 2**22
"""Characters after which a shard is closed, however few texts it has: what a worker holds at once."""


@dataclass(frozen=True)
class Record:
    """One text, or the reason why there is none.

    Attributes:
        source: the file, or the name of the data set.
        place: its line, row or number there, counted from 1.
        offset: bytes before it in the file; −1 where the source has none.
        text: the text; None where it could not be read.
        problem: why it could not.
    """

    source: str
    place: int
    offset: int
    text: str | None
    problem: str | None = None

    @property
    def stands(self) -> str:
        """Where it stands, for a reader."""
        return f"{self.source} {self.place}"


@dataclass(frozen=True)
class Job:
    """The texts of one shard; `first` is the number of the first in the whole set."""

    number: int
    first: int
    records: tuple[Record, ...]

    def left_out(self, place: int, reason: str) -> tuple[int, str]:
        """Of the text at a place that was left out: its number in the set, and where it stands and why."""
        return self.first + place, f"{self.records[place].stands}: {reason}"

    @property
    def digest(self) -> str:
        """sha256 over everything that the records say."""
        found = hashlib.sha256()
        for record in self.records:
            for piece in (record.source, record.place, record.offset, record.text, record.problem):
                content = repr(piece).encode()
                found.update(len(content).to_bytes(8, "little") + content)
        return found.hexdigest()


def jobs_of(records: Iterable[Record], per_shard: int) -> Iterator[Job]:
    """Cut a stream into shards: by the order of the source alone, so that every run cuts it alike."""
    held: list[Record] = []
    number = first = characters = 0
    for record in records:
        held.append(record)
        characters += len(record.text or "")
        if len(held) == per_shard or characters >= CHARACTERS:
            yield Job(number, first, tuple(held))
            number, first, characters, held = number + 1, first + len(held), 0, []
    if held:
        yield Job(number, first, tuple(held))
