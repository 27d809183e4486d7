"""What a worker hands back of a shard: the bytes of its files, and what its marker says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from heedmap.heads.types import FEWEST_ROWS, TYPES
from heedmap.sets.files import parquet
from heedmap.sets.schema import HEADS, SUMS, TEXTS
from heedmap.sets.shards import Shard
from heedmap.sets.sums import Sums, of_values
from heedmap.textsets.prepared import Prepared, excerpt, text_digest
from heedmap.textsets.records import Job

if TYPE_CHECKING:
    from heedmap.textsets.measurer import Found

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Outcome:
    """A measured shard: its marker without files, and its files by kind."""

    shard: Shard
    contents: Mapping[str, bytes]
    refused: tuple[tuple[int, str], ...]
    """Of each text that was left out: its number, and where it stands and why."""


def outcome(
    job: Job, texts: Mapping[int, Prepared], refused: Mapping[int, str], found: Found, facts: Mapping[str, Any]
) -> Outcome:
    """Put together what was measured of a shard.

    Args:
        texts: place in the shard → each text that was measured.
        refused: place → why a text was left out.
    """
    contents = {TEXTS: parquet(_texts(job, texts, refused))}
    if texts:
        order = np.argsort(found.places)
        places = np.array(found.places)[order]
        values = np.concatenate(found.values)[order]
        numbers = job.first + places
        types, judged, of_type = _types(values, found.names, [texts[place] for place in places.tolist()])
        sums = Sums.empty(found.heads, found.names, types)
        own = found.sums | of_values(values, numbers)
        tokens = np.stack([np.bincount(texts[place].kinds, minlength=len(sums.arrays["tokens"])) for place in places])
        own |= {"judged": judged, "of_type": of_type, "texts": np.array([len(places)]), "tokens": tokens.sum(0)}
        sums = Sums(sums.heads, sums.values, sums.types, {name: own[name] for name in sums.arrays})
        contents |= {SUMS: sums.dump(), HEADS: parquet(_heads(found, values, numbers, texts, places))}
    shard = Shard(
        number=job.number,
        first=job.first,
        records=len(job.records),
        texts=len(texts),
        tokens=sum(map(len, texts.values())),
        digest=job.digest,
        files={},
        told=facts,
    )
    return Outcome(shard, contents, tuple(job.left_out(place, reason) for place, reason in sorted(refused.items())))


def _types(values: Array, names: list[str], texts: list[Prepared]) -> tuple[list[str], Array, Array]:
    """Names of the types of head, and in how many texts each head could be judged and was of each: `[types, heads]`."""
    known = [name for name in TYPES if name in names]
    judged, of_type = [], []
    for name in known:
        own = values[:, names.index(name)]
        if name in ("duplicate", "induction"):
            rows = np.array([text.copies[name == "induction"] for text in texts])
            own = np.where(rows[:, None] >= FEWEST_ROWS, own, np.nan)
        bar = TYPES[name].bar
        judged.append(np.isfinite(own).sum(0))
        of_type.append((own >= bar if TYPES[name].at_least else own > bar).sum(0))
    return known, np.stack(judged), np.stack(of_type)


def _texts(job: Job, texts: Mapping[int, Prepared], refused: Mapping[int, str]) -> pa.Table:
    rows = [
        {
            "text": job.first + place,
            "source": record.source.encode("utf-8", "backslashreplace").decode(),
            "place": record.place,
            "byte": record.offset if record.offset >= 0 else None,
            "characters": len(record.text or ""),
            "tokens": len(texts[place]) if place in texts else None,
            "cut_from": texts[place].tokens.truncated_from if place in texts else None,
            "sha256": text_digest(record.text),
            "excerpt": excerpt(record.text),
            "reason": refused.get(place),
        }
        for place, record in enumerate(job.records)
    ]
    schema = pa.schema(
        [
            ("text", pa.int64()),
            ("source", pa.string()),
            ("place", pa.int64()),
            ("byte", pa.int64()),
            ("characters", pa.int64()),
            ("tokens", pa.int32()),
            ("cut_from", pa.int32()),
            ("sha256", pa.string()),
            ("excerpt", pa.string()),
            ("reason", pa.string()),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)


def _heads(found: Found, values: Array, numbers: Array, texts: Mapping[int, Prepared], places: Array) -> pa.Table:
    """One row a head and text, the texts of one head together."""
    count, heads = len(numbers), len(found.heads)
    part, layer, head = (np.repeat(column, count) for column in zip(*found.heads, strict=True))
    columns: dict[str, Any] = {
        "part": pa.array(part, pa.string()),
        "layer": pa.array(layer, pa.int32()),
        "head": pa.array(head, pa.int32()),
        "text": pa.array(np.tile(numbers, heads), pa.int64()),
        "tokens": pa.array(np.tile([len(texts[place]) for place in places.tolist()], heads), pa.int32()),
    }
    for at, name in enumerate(found.names):
        columns[name] = pa.array(values[:, at].T.reshape(-1).astype(np.float32), from_pandas=True)  # NaN: null
    return pa.table(columns)
