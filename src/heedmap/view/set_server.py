"""The local server of a set of texts: its page, and the ordinary viewer for every run that it stores."""

from __future__ import annotations

import re
import threading

from heedmap.errors import HeedmapError
from heedmap.runs.manifest import is_run
from heedmap.runs.reader import open_run
from heedmap.sets.reader import TextSet
from heedmap.sets.schema import RUNS
from heedmap.view import page
from heedmap.view.files import RunFiles
from heedmap.view.server import ViewServer
from heedmap.view.sets import SetDocuments

_RUN = re.compile(r"(text-\d{1,18})/(?:runs/0/)?([^/]*(?:/[^/]+)?)")


class SetServer(ViewServer):
    """Serves one set on this machine's loopback, as `ViewServer` serves runs, and below `text-N/` each run that the set
    stores, those too that are stored while it serves.

    Raises:
        StorageError: the port is taken.
    """

    def __init__(self, found: TextSet, port: int = 0) -> None:
        self._found = found
        self._documents = SetDocuments(found)
        self._places: dict[str, int] = {}
        self._opening = threading.Lock()
        super().__init__([], port)
        self.fixed = {
            "": (page.set_page(found.path.name).encode(), "text/html; charset=utf-8"),
            page.SET_SCRIPT: (page.set_script().encode(), "text/javascript; charset=utf-8"),
        }

    def document(self, rest: str) -> tuple[bytes, str] | None:
        """A page, a script, or a document of the set."""
        if rest in self.fixed:
            return self.fixed[rest]
        match = _RUN.fullmatch(rest)
        if match is not None and "/runs/" not in rest and self._place(match[1]) is not None:
            if match[2] == "":
                return page.served_page([{"name": match[1]}]).encode(), "text/html; charset=utf-8"
            return (page.script().encode(), "text/javascript; charset=utf-8") if match[2] == page.SCRIPT else None
        try:
            content = self._documents.get(rest)
        except HeedmapError as error:
            return str(error).encode(), "text/plain; charset=utf-8"
        return None if content is None else (content, "application/json")

    def file(self, rest: str) -> str:
        """A stored run's files lie below its own page."""
        match = _RUN.fullmatch(rest)
        place = None if match is None or "/runs/0/" not in rest else self._place(match[1])
        return "" if match is None or place is None else f"runs/{place}/{match[2]}"

    def _place(self, name: str) -> int | None:
        """Where a stored run stands among the served ones; it is opened when it is first asked for."""
        with self._opening:
            path = self._found.path / RUNS / name
            if name not in self._places and is_run(path):
                try:
                    files = RunFiles(open_run(path))
                except HeedmapError:
                    return None
                files.prepare()
                self.files.append(files)
                self._places[name] = len(self.files) - 1
            return self._places.get(name)
