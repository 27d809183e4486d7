from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from types import ModuleType

import pytest

from heedmap.errors import StorageError
from heedmap.runs.reader import Run, open_run
from heedmap.view.server import ViewServer


@pytest.fixture
def server(run: Run) -> Iterator[ViewServer]:
    with serving(ViewServer([run])) as server:
        yield server


class serving:  # noqa: N801 — reads as a word
    def __init__(self, server: ViewServer) -> None:
        self.server = server

    def __enter__(self) -> ViewServer:
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def ask(
    server: ViewServer, path: str, *, method: str = "GET", token: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, f"/{server.token if token is None else token}/{path}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_the_page_and_its_script_come_under_the_token(server: ViewServer) -> None:
    status, headers, body = ask(server, "")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b'src="viewer.js"' in body
    assert ask(server, "viewer.js")[0] == 200


def test_small_answers_leave_at_once(server: ViewServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the headers to be acknowledged, which takes a browser 40 ms."""
    accepted: list[socket.socket] = []
    take = server.get_request

    def noted() -> tuple[socket.socket, object]:
        connection, address = take()
        accepted.append(connection)
        return connection, address

    monkeypatch.setattr(server, "get_request", noted)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", f"/{server.token}/runs/0/run.json")
    connection.getresponse().read()
    assert accepted[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    connection.close()


def test_whole_files_and_byte_ranges_are_the_bytes_of_the_run(server: ViewServer, run: Run) -> None:
    content = (run.path / "inputs.safetensors").read_bytes()
    assert ask(server, "runs/0/inputs.safetensors")[2] == content
    status, headers, body = ask(server, "runs/0/inputs.safetensors", Range="bytes=10-29")
    assert (status, body) == (206, content[10:30])
    assert headers["content-range"] == f"bytes 10-29/{len(content)}"
    assert ask(server, "runs/0/inputs.safetensors", Range="bytes=10-")[2] == content[10:]
    assert ask(server, "runs/0/inputs.safetensors", Range=f"bytes=0-{10**9}")[2] == content
    assert ask(server, "runs/0/inputs.safetensors", Range=f"bytes={len(content)}-")[0] == 416


def test_head_gives_the_size_and_no_body(server: ViewServer, run: Run) -> None:
    status, headers, body = ask(server, "runs/0/text.txt", method="HEAD")
    assert (status, body) == (200, b"")
    assert headers["content-length"] == str((run.path / "text.txt").stat().st_size)


@pytest.mark.parametrize("token", ["", "x", "%C3%A9"])
def test_another_token_finds_nothing(server: ViewServer, token: str) -> None:
    assert ask(server, "", token=token)[0] == 404
    assert ask(server, "runs/0/run.json", token=token)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
def test_another_host_name_is_refused(server: ViewServer, host: str) -> None:
    assert ask(server, "", Host=host)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "runs/0/../../secret",
        "runs/0/%2e%2e/secret.txt",
        "runs/0//etc/passwd",
        "runs/0/secret.txt",
        "runs/1/run.json",
        "runs/-1/run.json",
        "runs/0/",
        "runs/0/run.json/",
        "run.json",
        "../",
    ],
)
def test_nothing_but_the_files_of_the_runs_is_served(server: ViewServer, run: Run, path: str) -> None:
    secret = run.path / "secret.txt"
    secret.write_text("secret")
    try:
        assert ask(server, path)[0] == 404
    finally:
        secret.unlink()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_allowed(server: ViewServer, method: str) -> None:
    assert ask(server, "", method=method)[0] == 501


def test_every_answer_forbids_everything_from_elsewhere(server: ViewServer) -> None:
    for path, method in (
        ("", "GET"),
        ("viewer.js", "GET"),
        ("runs/0/run.json", "GET"),
        ("nothing", "GET"),
        ("", "POST"),
    ):
        headers = ask(server, path, method=method)[1]
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_each_server_has_its_own_long_token(run: Run) -> None:
    with ViewServer([run]) as one, ViewServer([run]) as other:
        assert one.token != other.token
        assert re.fullmatch(r"[\w-]{20,}", one.token)
        assert one.server_address[0] == "127.0.0.1"


def test_a_file_that_vanished_is_told(run: Run, tmp_path: Path) -> None:
    copy = Path(copytree(run.path, tmp_path / "gone"))
    with serving(ViewServer([open_run(copy)])) as server:
        (copy / "query.parquet").unlink()
        status, _, body = ask(server, "runs/0/query.parquet")
    assert status == 410
    assert b"query.parquet" in body


def test_a_name_cannot_break_out_of_the_page(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "<img src=x onerror=alert(1)>", made.uniform(3)[None, None])
    with serving(ViewServer([run])) as server:
        body = ask(server, "")[2].decode()
    assert "<img" not in body


def test_a_taken_port_is_one_clear_error(run: Run) -> None:
    with ViewServer([run]) as server, pytest.raises(StorageError, match="choose --port 0"):
        ViewServer([run], server.port)
