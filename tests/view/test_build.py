"""The viewer's own tests, and the proof that the committed script is what its source builds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from heedmap.view.page import script, set_script

VIEWER = Path(__file__).parents[2] / "viewer"


@pytest.fixture(scope="module")
def npm() -> str:
    program = shutil.which("npm")
    if program is None or not (VIEWER / "node_modules").is_dir():
        pytest.skip("the viewer's tests need Node.js and `npm ci` in viewer/")
    return program


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=VIEWER, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_the_committed_script_is_what_the_source_builds(npm: str, tmp_path: Path) -> None:
    run(npm, "exec", "--", "vite", "build", "--config", "vite.worker.config.ts")
    run(npm, "exec", "--", "vite", "build", "--outDir", str(tmp_path))
    run(npm, "exec", "--", "vite", "build", "--config", "vite.set.config.ts", "--outDir", str(tmp_path))
    for name, committed in (("viewer.js", script()), ("set.js", set_script())):
        built = (tmp_path / name).read_text("utf-8")
        assert built == committed, "run `npm run build` in viewer/ and commit src/heedmap/view/static/"


def test_the_viewer_s_types_hold(npm: str) -> None:
    run(npm, "run", "types")


def test_the_viewer_is_in_its_standard_form(npm: str) -> None:
    run(npm, "run", "format-check")


def test_the_viewer_s_own_tests_pass(npm: str) -> None:
    run(npm, "test")


def test_the_lock_names_no_host() -> None:
    lock = json.loads((VIEWER / "package-lock.json").read_text())
    hosts = {
        re.sub(r"^(https?://[^/]+).*", r"\1", entry["resolved"])
        for entry in lock["packages"].values()
        if "resolved" in entry
    }
    assert hosts <= {"https://registry.npmjs.org"}


def test_the_script_asks_nobody_else() -> None:
    addresses = set(re.findall(r"https?://[\w.-]+", script() + set_script()))
    assert addresses <= {"http://www.w3.org"}, "namespaces of SVG only"
