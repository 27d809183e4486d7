"""A local server of a run's files by byte range, for one browser on the same machine.

It answers GET and HEAD for the page, its script and the files of its runs, and nothing else. Every address begins with
a secret token; requests under another host name than this machine's loopback are refused, which stops pages elsewhere
from reaching it by DNS rebinding; and the page may load nothing from anywhere else.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import secrets
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from heedmap.errors import HeedmapError, StorageError
from heedmap.runs.reader import Run
from heedmap.view import page
from heedmap.view.files import RunFiles, run_names

LOOPBACK = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src blob:; img-src blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
PIECE = 4 * 2**20

_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})?")
_FILE = re.compile(r"runs/(\d{1,4})/(.+)", re.DOTALL)


class ViewServer(ThreadingHTTPServer):
    """Serves runs on this machine's loopback.

        with ViewServer([open_run("runs/cat")]) as server:
            print(server.url)
            server.serve_forever()

    Args:
        runs: what to show; the first one is opened.
        port: 0 takes a free one.

    Raises:
        StorageError: the port is taken.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, runs: Sequence[Run], port: int = 0) -> None:
        self.files = [RunFiles(run) for run in runs]
        self.token = secrets.token_urlsafe(18)
        names = [{"name": name} for name in run_names(runs)]
        self.fixed = {
            "": (page.served_page(names).encode(), "text/html; charset=utf-8"),
            page.SCRIPT: (page.script().encode(), "text/javascript; charset=utf-8"),
        }
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise StorageError(
                "view",
                expected=f"a free port, {port} or another",
                got=error.strerror or str(error),
                do="choose --port 0",
            ) from error
        for files in self.files:
            files.prepare()

    def document(self, rest: str) -> tuple[bytes, str] | None:
        """The content of an address that is no file of a run, and its type; None where there is none."""
        return self.fixed.get(rest)

    def file(self, rest: str) -> str:
        """`runs/N/NAME` for an address of a file of a run."""
        return rest

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away in the middle of an answer; anything else is a defect."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The page's address, with its token."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version = "heedmap"
    sys_version = ""
    timeout = 60
    disable_nagle_algorithm = True  # else a small answer waits for the browser to acknowledge its headers, 40 ms

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep the terminal quiet."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is neither GET nor HEAD, or no request at all, under the same policy as everything else."""
        reply = f"{message or HTTPStatus(code).phrase}\n".encode("ascii", "replace")
        self._send(HTTPStatus(code), reply, extra={"Connection": "close"})

    def _answer(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):  # the browser went away
            if not self._from_here():
                self._send(HTTPStatus.FORBIDDEN, b"This server answers only at the address it printed.\n")
                return
            path = unquote(urlsplit(self.path).path)
            token, slash, rest = path.removeprefix("/").partition("/")
            if not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
                self._send(HTTPStatus.NOT_FOUND, b"Not found. The address ends in a token; copy it whole.\n")
            elif (found := self.server.document(rest)) is not None:
                self._send(HTTPStatus.OK, *found)
            else:
                self._send_file(self.server.file(rest))

    def _from_here(self) -> bool:
        """Whether the request names this machine's loopback and this port as its host."""
        hosts = {f"{name}:{self.server.port}" for name in (LOOPBACK, "localhost")}
        return self.headers.get_all("Host", []) in [[host] for host in hosts]

    def _send_file(self, rest: str) -> None:
        match = _FILE.fullmatch(rest)
        index = int(match[1]) if match else -1
        if match is None or index >= len(self.server.files) or match[2] not in self.server.files[index]:
            self._send(HTTPStatus.NOT_FOUND, b"Not found.\n")
            return
        files, name = self.server.files[index], match[2]
        try:
            size = files.size(name)
            span = self._span(size)
            if span is None:
                self._send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", extra={"Content-Range": f"bytes */{size}"})
                return
            start, end, partial = span
            first = files.read(name, start, min(end, start + PIECE))
        except HeedmapError as error:
            self._send(HTTPStatus.GONE, f"{error}\n".encode())
            return
        extra = {"Accept-Ranges": "bytes"}
        if partial:
            extra["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        status = HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK
        self._send(status, first, "application/octet-stream", extra, length=end - start)
        if self.command == "HEAD":
            return
        at = start + len(first)
        while at < end and first:
            first = files.read(name, at, min(end, at + PIECE))
            self.wfile.write(first)
            at += len(first)
        if at < end:
            self.close_connection = True  # the file shrank meanwhile: the browser sees a broken answer

    def _span(self, size: int) -> tuple[int, int, bool] | None:
        """First byte, end, and whether a range was asked for; None where the range lies outside."""
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            return 0, size, False
        start = int(match[1])
        end = min(size, int(match[2]) + 1) if match[2] else size
        return (start, end, True) if start < end else None

    def _send(
        self,
        status: HTTPStatus,
        body: bytes,
        kind: str = "text/plain; charset=utf-8",
        extra: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body) if length is None else length)}
        for name, value in (HEADERS | headers | (extra or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
