"""The entries of run.json that are about no single layer: which kind of value each may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedmap.runs.schema import RUN_JSON, MalformedError, short

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "an integer": (int,),
    "a number": (int, float),
    "true or false": (bool,),
    "a list": (list,),
    "an object": (dict,),
}
_REQUIRED = ("model", "text", "statistics")
_ENTRIES: dict[str, dict[str, tuple[str, ...]]] = {  # where → kind → entries
    "": {
        "text": ("heedmap", "created"),
        "a list": ("command",),
        "an object": (*_REQUIRED, "self_check", "cost", "versions", "not_finite"),
    },
    "model": {
        "text": ("name", "revision", "class", "dtype", "attention"),
        "an integer": ("layers", "initialised"),
    },
    "text": {"text": ("sha256",), "an integer": ("characters", "tokens", "truncated_from")},
    "self_check": {
        "text": ("part",),
        "an integer": ("layer", "head", "rows", "keys"),
        "a number": ("max_abs_error", "budget", "path_difference", "loaded_difference"),
        "true or false": ("passed", "loaded_agrees", "output_finite"),
    },
    "cost": {"an object": ("seconds",), "a number": ("peak_bytes", "output_attentions_bytes")},
}
"""An entry that is absent or null says that nothing is known; `_REQUIRED` ones must be there."""


def check_entries(meta: Mapping[str, Any]) -> None:
    """Raise `MalformedError` for an entry of run.json of another kind than the format gives it."""
    for name in _REQUIRED:
        _check(name, meta.get(name), "an object")
    for where, kinds in _ENTRIES.items():
        inside = meta if not where else meta.get(where) or {}
        for kind, names in kinds.items():
            for name in names:
                if inside.get(name) is not None:
                    _check(f"{where}.{name}" if where else name, inside[name], kind)
    for stage, seconds in ((meta.get("cost") or {}).get("seconds") or {}).items():
        if seconds is not None:
            _check(f"cost.seconds.{stage}", seconds, "a number")
    for name, entry in meta["statistics"].items():
        _check(f"statistics.{name}", entry, "an object")
        for field in ("axis", "unit"):
            _check(f"statistics.{name}.{field}", entry.get(field), "text")


def _check(name: str, value: object, kind: str) -> None:
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "true or false"):
        raise MalformedError(f"{short(name)[1:-1]} as {kind} in {RUN_JSON}", short(value))
