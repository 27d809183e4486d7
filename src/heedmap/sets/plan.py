"""What a set was asked for: written first, and what a resumed scan is held to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedmap.errors import RunError
from heedmap.runs.folder import storage
from heedmap.runs.schema import short
from heedmap.sets.files import WHERE, put_json, read_json
from heedmap.sets.schema import FORMAT, PLAN_JSON, VERSION
from heedmap.sets.shards import forget_unmeasured


def make_folder(folder: Path) -> Path:
    """Make the folder of a set where there is none. Raises RunError, StorageError."""
    if folder.exists() and not folder.is_dir():
        raise RunError(WHERE, expected="a folder for the set", got=f"the file {folder}", do="choose another place")
    with storage(WHERE, folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def begin(folder: Path, plan: Mapping[str, Any]) -> None:
    """Write the plan of a new set, or hold an earlier one of this folder to it.

    A set of which no text has been measured yet (no such model, or each text too long for it) begins anew.

    Raises:
        RunError: the folder holds something else, or a set of other texts or arguments.
    """
    asked = json.loads(json.dumps(plan))
    try:
        document = read_json(folder / PLAN_JSON)
    except RunError as error:
        raise RunError(
            WHERE,
            expected=error.expected,
            got=error.got,
            do="put it back from a copy, or choose another folder: without it nobody knows what was asked",
        ) from error
    strange = sorted(item.name for item in folder.iterdir() if not item.name.startswith(PLAN_JSON))
    if document is None:
        if strange:
            raise RunError(
                WHERE,
                expected="an empty folder or an earlier scan",
                got=f"{folder} with {strange[0]} in it",
                do="choose another folder",
            )
        put_json(folder / PLAN_JSON, {"format": FORMAT, "version": VERSION, "plan": asked})
        return
    before = plan_of(document, folder)
    if forget_unmeasured(folder):
        put_json(folder / PLAN_JSON, {"format": FORMAT, "version": VERSION, "plan": asked})
        return
    for name in sorted({*before, *asked}):
        if before.get(name) != asked.get(name):
            raise RunError(
                WHERE,
                expected=f"the arguments that {folder} was begun with: {_difference(name, before, asked)}",
                got=_difference(name, asked, before),
                do="give the same arguments to go on, or choose another folder",
            )


def plan_of(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The plan in a document of this format. Raises RunError."""
    if document.get("format") != FORMAT or not isinstance(document.get("plan"), dict):
        raise RunError(WHERE, expected=f"a set of texts in {folder}", got="a folder of something else")
    if document.get("version") != VERSION:
        raise RunError(
            WHERE,
            expected=f"a set of format version {VERSION}",
            got=f"version {short(document.get('version'))}",
            do="take the heedmap that wrote it",
        )
    return document["plan"]


def _difference(name: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    value, other = here.get(name), there.get(name)
    if isinstance(value, dict) and isinstance(other, dict):
        inner = next(key for key in sorted({*value, *other}) if value.get(key) != other.get(key))
        return _difference(inner, value, other)
    return f"{name}={short(value)}"
