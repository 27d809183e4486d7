"""From finished shards to the tables of the whole set: merged in the order of shards, `set.json` written last."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from heedmap import __version__
from heedmap.errors import InputError, RunError
from heedmap.sets.examples import deciles, tops
from heedmap.sets.files import WHERE, parquet, put, put_json, read_json
from heedmap.sets.schema import FORMAT, MAPS, SET_JSON, TEXTS, TOTALS, VERSION, way_back
from heedmap.sets.shards import Shard, marker, shard_files
from heedmap.sets.sums import Sums
from heedmap.sets.totals import entropies, kinds, maps, means, profiles, types


@dataclass(frozen=True)
class Done:
    """The work that a set is put together from: its plan, and every shard in order."""

    plan: Mapping[str, Any]
    shards: Sequence[Shard]
    before: bool
    """Every shard was finished before this call."""


def finish(folder: Path, done: Done) -> None:
    """Write the tables of the whole set and its manifest; nothing is done where they stand already.

    Raises:
        InputError: there is not one text that was measured.
        RunError: shards of another model, or more shards than the texts fill.
    """
    if (folder / marker(len(done.shards))).exists():
        raise RunError(
            WHERE,
            expected=f"the texts that {folder} was begun with",
            got="fewer: there are shards of texts beyond their end",
            do="choose another folder for the changed texts",
        )
    if done.before and is_whole(folder):
        return
    measured = [shard for shard in done.shards if shard.texts]
    if not measured:
        raise InputError(WHERE, expected="texts that can be measured", got=_why_none(folder, done.shards))
    models = [shard.told["model"] for shard in measured]
    if any(model != models[0] for model in models):
        raise RunError(
            WHERE,
            expected="shards of one model",
            got=f"{models[0]} and others",
            do="the model changed while the set was made: choose another folder",
        )
    sums = merged(folder, measured)
    units = measured[0].told["units"]
    contents = {
        "means": parquet(means(sums, units)),
        "profiles": parquet(profiles(sums)),
        "entropies": parquet(entropies(sums)),
        "kinds": parquet(kinds(sums)),
        "types": parquet(types(sums)),
        "tops": parquet(tops(sums)),
        "deciles": parquet(deciles(folder, measured, sums)),
    }
    files = {f"{TOTALS}/{name}.parquet": content for name, content in contents.items()}
    files[f"{TOTALS}/{MAPS}"] = maps(sums)
    for name, content in files.items():
        put(folder / name, content)
    put_json(folder / SET_JSON, _manifest(done, sums, units, {name: len(content) for name, content in files.items()}))


def merged(folder: Path, shards: Sequence[Shard]) -> Sums:
    """The sums of all shards, added in their order: the same bits whoever measured them, and when.

    Raises:
        RunError: a shard's sums are damaged, or of other heads than the others'.
    """
    total: Sums | None = None
    for shard in shards:
        file = folder / shard_files(shard.number)["sums"]
        try:
            own = Sums.load(str(file))
        except RunError as error:
            raise RunError(WHERE, expected=error.expected, got=error.got, do=way_back(folder, file)) from error
        total = own if total is None else total.merge(own)
    assert total is not None
    return total


def is_whole(folder: Path) -> bool:
    """Whether the manifest stands and every file that it lists has its size; a damaged one is written again."""
    try:
        document = read_json(folder / SET_JSON)
    except RunError:
        return False
    if document is None:
        return False
    files = document.get("files")
    return isinstance(files, dict) and all(
        (folder / name).is_file() and (folder / name).stat().st_size == size for name, size in files.items()
    )


def _manifest(done: Done, sums: Sums, units: Mapping[str, str], files: Mapping[str, int]) -> dict[str, Any]:
    measured = [shard for shard in done.shards if shard.texts]
    told: dict[str, int] = {}
    for shard in done.shards:
        for warning, count in shard.told["warnings"].items():
            told[warning] = told.get(warning, 0) + count
    return {
        "format": FORMAT,
        "version": VERSION,
        "heedmap": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "plan": dict(done.plan),
        "model": measured[0].told["model"],
        "versions": measured[0].told["versions"],
        "self_check": done.shards[0].told.get("self_check"),
        "shards": len(done.shards),
        "texts": sum(shard.texts for shard in done.shards),
        "refused": sum(shard.records - shard.texts for shard in done.shards),
        "tokens": sum(shard.tokens for shard in done.shards),
        "heads": [list(head) for head in sums.heads],
        "values": {name: units[name] for name in sums.values},
        "types": list(sums.types),
        "warnings": told,
        "seconds": sum(float(shard.told["seconds"]) for shard in done.shards),
        "files": dict(files),
    }


def _why_none(folder: Path, shards: Sequence[Shard]) -> str:
    if not shards:
        return "none: there is no text at all"
    reasons = pq.read_table(folder / shard_files(0)[TEXTS], columns=["reason"]).column(0).to_pylist()
    records = sum(shard.records for shard in shards)
    return f"{records}, none of which can be; the first: {reasons[0]}"
