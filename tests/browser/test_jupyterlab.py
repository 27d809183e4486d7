"""The widget in JupyterLab itself: two runs in one notebook, read from a live kernel."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from heedmap.runs.reader import Run

pytest.importorskip("jupyterlab", reason="this test needs jupyterlab: pip install --group notebook")
pytest.importorskip("ipykernel")


@pytest.fixture
def notebook(cat: Run, tmp_path: Path) -> Iterator[str]:
    """The address of a notebook in a JupyterLab of its own."""
    show = f"import heedmap\nheedmap.open_run({str(cat.path)!r}).show(height=600)"
    cells = [
        {"cell_type": "code", "execution_count": None, "id": f"c{i}", "metadata": {}, "outputs": [], "source": show}
        for i in range(2)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "two.ipynb").write_text(json.dumps(content))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    options = ["--ServerApp.token=t", f"--ServerApp.root_dir={tmp_path}"]
    environment = {**os.environ, "HOME": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "1"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *options], env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path
        )
        try:
            _wait(f"http://127.0.0.1:{port}/api?token=t")
            yield f"http://127.0.0.1:{port}/lab/tree/two.ipynb?token=t&reset"
        finally:
            process.terminate()
            process.wait(30)


def _wait(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urlopen(url):
                return
        except URLError:
            assert time.monotonic() < deadline, "JupyterLab never answered"
            time.sleep(0.2)


def test_two_widgets_live_in_one_notebook(notebook: str, open_page: Callable[..., Any]) -> None:
    page = open_page(notebook, wait=False, viewport={"width": 1400, "height": 1600})
    page.wait_for_selector(".jp-Notebook", timeout=60_000)
    page.get_by_text("| Idle").first.wait_for(timeout=60_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.wait_for_selector(".heedmap .status[data-exact=true] >> nth=1", timeout=60_000)
    first, second = page.locator(".heedmap").all()
    assert first.get_attribute("data-engine") == "worker"
    for widget in (first, second):
        page.settled(widget)
        assert widget.locator(".head").count() == 72
    first.locator(".head").nth(70).click()
    first.locator("h2 >> text=5.10").wait_for()
    assert second.locator("h2 >> text=5.10").count() == 0
    first.locator(".matrix").focus()
    for key in ("Enter", "0", "0", "b"):  # JupyterLab's own: edit, restart the kernel, new cell
        page.keyboard.press(key)
    first.locator(".axes .pin").wait_for()
    page.locator(".jp-CodeCell .jp-InputPrompt").last.click()  # which a dialog would be in the way of
    page.keyboard.press("b")
    page.locator(".jp-CodeCell >> nth=2").wait_for()
    assert page.locator(".jp-CodeCell").count() == 3, "only what was pressed outside the widget made a cell"
    assert page.locator(".jp-Dialog").count() == 0
    page.wrong.clear()  # what JupyterLab itself reports
