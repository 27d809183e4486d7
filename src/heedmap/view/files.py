"""The files of a run as the viewer reads them: by name and byte range, and nothing else of the folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from heedmap.errors import HeedmapError, RunError
from heedmap.runs.reader import Run, open_run
from heedmap.runs.schema import RUN_JSON
from heedmap.view import derived
from heedmap.view.profiles import profiles

DERIVED: dict[str, Callable[[Run], bytes]] = {
    "derived/heads.json": derived.heads,
    "derived/thumbnails.safetensors": derived.thumbnails,
    "derived/types.json": derived.types,
    "derived/profiles.safetensors": profiles,
}
"""Small files that are computed from the run when they are first asked for."""

PROFILES = "derived/profiles.safetensors"
"""Of use only where the tables themselves are not at hand."""


def run_names(runs: Sequence[Run]) -> list[str]:
    """What a page calls its runs: the name of each folder, with as many folders above as tell it from the others'.

    A folder that is shown several times has a number behind its name from the second time on.
    """
    parts = [run.path.resolve().parts for run in runs]
    names: list[str] = []
    for i, own in enumerate(parts):
        others = [other for other in parts if other != own]
        depth = 1
        while depth < len(own) and any(other[-depth:] == own[-depth:] for other in others):
            depth += 1
        again = parts[:i].count(own)
        names.append("/".join(own[-depth:]) + (f" ({again + 1})" if again else ""))
    return names


class RunFiles:
    """The one seam between a run and the viewer: ``read(name, start, end)``.

    Only what run.json lists can be read, run.json itself, and the derived files; a name is looked up, never joined to
    a path of the caller's.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._paths: dict[str, Path] = {name: run.path / name for name in (RUN_JSON, *run.meta["files"])}
        self._derived: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._own: Run | None = None  # Parquet readers bear one thread only, and the caller's run is the caller's

    @property
    def names(self) -> list[str]:
        """Every name that can be read."""
        return [*self._paths, *DERIVED]

    def __contains__(self, name: str) -> bool:
        return name in self._paths or name in DERIVED

    def size(self, name: str) -> int:
        """The file's size in bytes now.

        Raises:
            RunError: the file has gone.
        """
        if name in DERIVED:
            return len(self._content(name))
        try:
            return self._paths[name].stat().st_size
        except OSError as error:
            raise _gone(self.run.path, name) from error

    def read(self, name: str, start: int, end: int | None = None) -> bytes:
        """Bytes ``start`` to ``end`` (exclusive, None: to the end of the file); fewer where the file ends before.

        Raises:
            RunError: the file has gone.
        """
        if name in DERIVED:
            return self._content(name)[start:end]
        try:
            with self._paths[name].open("rb") as file:
                file.seek(start)
                return file.read(-1 if end is None else max(0, end - start))
        except OSError as error:
            raise _gone(self.run.path, name) from error

    def prepare(self) -> None:
        """Start computing the derived files in the background: a page asks for them soon."""
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self) -> None:
        with contextlib.suppress(HeedmapError):  # told when it is asked for
            for name in DERIVED:
                if name != PROFILES:
                    self._content(name)

    def _content(self, name: str) -> bytes:
        if (made := self._derived.get(name)) is not None:  # without waiting for another that is being computed
            return made
        with self._lock:
            if name not in self._derived:
                if self._own is None:
                    self._own = open_run(self.run.path)
                self._derived[name] = DERIVED[name](self._own)
            return self._derived[name]


def _gone(path: Path, name: str) -> RunError:
    return RunError("view", expected=f"{name} in {path}", got="no such file any more", do="open the run again")
