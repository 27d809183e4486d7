"""What the page of a set reads: small JSON documents that are put together from its tables."""

from __future__ import annotations

import functools
import json
import math
import shlex
from typing import TYPE_CHECKING, Any

from heedmap.sets.reader import TextSet
from heedmap.sets.schema import EXCERPT, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

OVERVIEW = "set/overview.json"


class SetDocuments:
    """The documents of one set by name: the overview of all heads, and one for each head."""

    def __init__(self, found: TextSet) -> None:
        self.found = found

    def names(self) -> list[str]:
        """Every name that can be asked for."""
        return [OVERVIEW, *(f"set/heads/{place}.json" for place in range(len(self.found.heads)))]

    def get(self, name: str) -> bytes | None:
        """A document as UTF-8 JSON; None for a name that is none. Raises RunError."""
        make = self._maker(name)
        if make is None:
            return None
        text = json.dumps(_finite(make()), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")

    def _maker(self, name: str) -> Callable[[], dict[str, Any]] | None:
        if name == OVERVIEW:
            return self._overview
        if name in self.names():
            return functools.partial(self._head, int(name.removeprefix("set/heads/").removesuffix(".json")))
        return None

    def _overview(self) -> dict[str, Any]:
        """Counts, and the mean of every value of every head."""
        found = self.found
        place = {head: at for at, head in enumerate(found.heads)}
        means: dict[str, list[float | None]] = {name: [None] * len(found.heads) for name in found.values}
        for row in found.table("means").to_pylist():
            means[row["statistic"]][place[row["part"], row["layer"], row["head"]]] = row["mean"]
        types: list[list[str]] = [[] for _ in found.heads]
        for row in found.table("types").to_pylist():
            if row["holds"]:
                types[place[row["part"], row["layer"], row["head"]]].append(row["type"])
        counts = {name: found.meta[name] for name in ("texts", "refused", "tokens", "shards")}
        return {
            "name": found.path.name,
            "model": found.meta["model"].get("name"),
            "heads": [list(head) for head in found.heads],
            "units": found.values,
            "means": means,
            "types": types,
            **counts,
        }

    def _head(self, place: int) -> dict[str, Any]:
        """One head: what it does over the set, and the texts that show it."""
        found = self.found
        part, layer, head = found.heads[place]
        own = {
            name: found.table(name, part=part, layer=layer, head=head).to_pylist()
            for name in ("means", "deciles", "tops", "profiles", "entropies", "kinds", "types")
        }
        shown = {row["text"] for name in ("deciles", "tops") for row in own[name]}
        return own | {
            "map": [[round(float(cell), 6) for cell in row] for row in found.map(layer, head, part)],
            "examples": {str(text): self._text(text) for text in sorted(shown)},
        }

    def _text(self, text: int) -> dict[str, Any]:
        row = self._texts[text]
        stored = self.found.stored(text)
        return {
            "source": row["source"],
            "place": row["place"],
            "tokens": row["tokens"],
            "excerpt": row["excerpt"],
            "cut": row["characters"] > EXCERPT,
            "run": None if stored is None else f"{stored.name}/",
            "command": shlex.join(["heedmap", "look", str(text), "--of", str(self.found.path.resolve())]),
        }

    @functools.cached_property
    def _texts(self) -> dict[int, dict[str, Any]]:
        """The rows of all texts that serve as an example anywhere."""
        wanted = set()
        for table in ("deciles", "tops"):
            wanted.update(self.found.table(table, columns=["text"]).column(0).to_pylist())
        table = self.found.table(TEXTS, columns=["text", "source", "place", "characters", "tokens", "excerpt"])
        return {
            row["text"]: row for batch in table.to_batches(4096) for row in batch.to_pylist() if row["text"] in wanted
        }


def _finite(value: Any) -> Any:
    """Plain data without NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return value
