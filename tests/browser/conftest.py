"""A real browser for the viewer: Debian's Chromium, driven by Playwright. Without either, these tests are skipped."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from heedmap.runs.reader import Run
from heedmap.sets.reader import TextSet
from heedmap.view.server import ViewServer
from heedmap.view.set_server import SetServer

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: `make install`")

PATIENCE = 60
"""Seconds until a test gives up; a machine that is busy with other things is no failure."""
CAT = "The cat sat on the mat because it was tired"
ARGUMENTS = [
    "--no-sandbox",  # containers run as root
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """`open_page(url, **context)` → a page; at the end no script error and no broken policy may have been seen.

    The page knows how to wait for what it shows, never for a time: `until` an expression holds, until all is `settled`,
    and to `go` to another link.
    """
    contexts: list[Any] = []
    wrong: list[str] = []

    def opened(url: str, *, script: str | None = None, wait: bool = True, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        page.on("request", lambda request: _refuse_elsewhere(request.url, wrong))
        if script is not None:
            page.add_init_script(script)
        page.wrong = wrong
        page.until = partial(_until, page)
        page.settled = partial(_settled, page)
        page.go = partial(_go, page)
        page.goto(url)
        if wait:
            page.settled()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def _until(page: Any, expression: str, value: object = None) -> None:
    """Wait until an expression holds. Playwright's own wait needs `eval`, which the page's policy forbids."""
    deadline = time.monotonic() + PATIENCE
    while not page.evaluate(expression, value):
        assert time.monotonic() < deadline, f"{expression} never held at {page.url}"
        page.wait_for_timeout(30)


def _settled(page: Any, scope: Any = None) -> None:
    """Wait until every panel is built and nothing in it is still to come: the page marks what is with `aria-busy`."""
    scope = scope or page
    for panel in ("heads", "text", "query"):  # in this order, the last of all
        scope.locator(f"[data-panel={panel}]").wait_for(state="attached")
    scope.locator("[aria-busy=true]").first.wait_for(state="detached")


def _go(page: Any, link: str) -> None:
    """Put a link into the address of an open page, and wait until the page has followed it."""
    page.evaluate(
        "link => new Promise(done => {"
        " addEventListener('hashchange', () => requestAnimationFrame(done), { once: true });"
        " location.hash = link })",
        link,
    )
    _settled(page)


def _refuse_elsewhere(url: str, wrong: list[str]) -> None:
    if not url.startswith(("http://127.0.0.1:", "file:", "blob:", "data:")):
        wrong.append(f"asked {url}")


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., str]]:
    """`serve(run, …)` → the address of a server of these runs."""
    servers: list[ViewServer] = []

    def started(*runs: Run) -> str:
        server = ViewServer(runs)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server.url

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def address(found: TextSet) -> Iterator[str]:
    """The address of a server of the set that a module calls `found`."""
    with SetServer(found) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server.url
        server.shutdown()


@pytest.fixture(scope="session")
def cat(tmp_path_factory: pytest.TempPathFactory, minilm_folder: Path) -> Run:
    """The packaged model over one sentence."""
    from heedmap.capture.look import look

    return look(CAT, str(minilm_folder), out=tmp_path_factory.mktemp("runs") / "cat")


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The module ``tests/made_runs.py``."""
    spec = spec_from_file_location("made_runs", Path(__file__).parents[1] / "made_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., bytes]:
    """`saved(page, panel, item)` → the bytes that a panel's save menu gives."""

    def save(page: Any, panel: str, item: str) -> bytes:
        section = page.locator(f"[data-panel={panel}]")
        section.get_by_role("button", name="Save", exact=False).click()
        with page.expect_download() as download:
            section.get_by_role("menuitem", name=item).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path.read_bytes()

    return save
