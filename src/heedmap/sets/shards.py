"""The shards of a set on disk: each is finished once its marker stands, which is written last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedmap.errors import RunError
from heedmap.runs.folder import PARTIAL, storage
from heedmap.sets.files import put, put_json, read_json
from heedmap.sets.schema import HEADS, PLAN_JSON, SHARDS, SUMS, TEXTS, shard_name

_OF_SHARDS = re.compile(
    rf"({TEXTS}|{HEADS})/shard=\d+/part\.parquet({re.escape(PARTIAL)})?"
    rf"|({SUMS}|{SHARDS})/shard=\d+\.(safetensors|json)({re.escape(PARTIAL)})?"
)
"""Files of shards, whole or half-written."""


@dataclass(frozen=True)
class Shard:
    """What a finished shard says of itself, from its marker."""

    number: int
    first: int
    """Number of its first text in the whole set."""
    records: int
    """Texts, those that were left out included."""
    texts: int
    """Texts that were measured."""
    tokens: int
    digest: str
    """sha256 over all its records, by which they are known again."""
    files: Mapping[str, int]
    """Path within the set → bytes."""
    told: Mapping[str, Any]
    """Further facts: warnings, seconds, the self-check."""


def shard_files(number: int) -> dict[str, str]:
    """Kind → path within the set, of the files of a shard."""
    name = shard_name(number)
    return {
        TEXTS: f"{TEXTS}/{name}/part.parquet",
        HEADS: f"{HEADS}/{name}/part.parquet",
        SUMS: f"{SUMS}/{name}.safetensors",
    }


def marker(number: int) -> str:
    """Path within the set of the marker of a shard."""
    return f"{SHARDS}/{shard_name(number)}.json"


def write_shard(folder: Path, shard: Shard, contents: Mapping[str, bytes]) -> Shard:
    """Write the files of a shard, then its marker; returns the shard with its files.

    Args:
        contents: kind (`texts`, `heads`, `sums`) → bytes; a shard without one measured text has no heads and no sums.
    """
    paths = shard_files(shard.number)
    for kind, content in contents.items():
        put(folder / paths[kind], content)
    files = {paths[kind]: len(content) for kind, content in contents.items()}
    entry = {
        "shard": shard.number,
        "first": shard.first,
        "records": shard.records,
        "texts": shard.texts,
        "tokens": shard.tokens,
        "digest": shard.digest,
        "files": files,
        "told": dict(shard.told),
    }
    put_json(folder / marker(shard.number), entry)
    return Shard(**{**shard.__dict__, "files": files})


def finished(folder: Path, number: int) -> Shard | None:
    """A shard that is finished and whole, or None where it has to be done (again): a damaged marker marks nothing."""
    try:
        entry = read_json(folder / marker(number)) or {}
        shard = Shard(
            number,
            int(entry["first"]),
            int(entry["records"]),
            int(entry["texts"]),
            int(entry["tokens"]),
            str(entry["digest"]),
            {str(name): int(size) for name, size in entry["files"].items()},
            dict(entry["told"]),
        )
    except (RunError, KeyError, TypeError, ValueError, AttributeError):
        return None
    whole = all((folder / name).is_file() and (folder / name).stat().st_size == size for name, size in
                shard.files.items())  # fmt: skip
    return shard if whole else None


def forget_unmeasured(folder: Path) -> bool:
    """Remove the shards of a scan that has not measured one text; False where it has, or where anything else stands.

    What a misspelt column or a model too short for every text left behind is nothing that anyone would miss.
    """
    for file in sorted((folder / SHARDS).glob("shard=*.json")):
        try:
            if (read_json(file) or {}).get("texts") != 0:
                return False
        except RunError:  # a damaged marker: there may be others, of texts that were measured
            return False
    files = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if not file.is_dir()]
    files = sorted(name for name in files if name.removesuffix(PARTIAL) != PLAN_JSON)
    if not all(_OF_SHARDS.fullmatch(name) for name in files):
        return False
    marks = [name for name in files if name.startswith(f"{SHARDS}/")]
    with storage("scan", folder):
        for name in [*marks, *files]:  # a shard whose marker is gone is unfinished, whatever else is left of it
            (folder / name).unlink(missing_ok=True)
        for kind in (TEXTS, HEADS, SUMS, SHARDS):
            for place in [*(folder / kind).glob("*"), folder / kind]:
                if place.is_dir():
                    place.rmdir()
    return True
