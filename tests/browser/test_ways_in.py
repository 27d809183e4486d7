"""The three ways in: a served folder, one file from disk, a widget; and what happens where something is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from heedmap.runs.reader import Run, open_run
from heedmap.view.export import export
from heedmap.view.files import RunFiles
from heedmap.view.page import script

Page = Any
BLOCKED = "delete window.Worker"
NO_WEBGL = """
const get = HTMLCanvasElement.prototype.getContext
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest)
}
"""


@pytest.fixture(scope="module")
def larger(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    rng = np.random.default_rng(5)
    return made.make_run(tmp_path_factory.mktemp("runs") / "larger", rng.dirichlet(np.full(100, 0.2), (3, 4, 100)))


def map_numbers(page: Page, saved: Callable[..., bytes]) -> np.ndarray:
    page.locator(".status[data-exact=true][data-busy=false]").wait_for()
    rows = list(csv.reader(io.StringIO(saved(page, "map", "Table (CSV)").decode("utf-8-sig"))))[1:]
    return np.array([[float(value) for value in row[1:]] for row in rows])


def test_an_exported_file_gives_the_same_numbers_from_disk(
    open_page: Callable[..., Page], saved: Callable[..., bytes], cat: Run, tmp_path: Path
) -> None:
    export([cat], tmp_path / "cat.html")
    assert (tmp_path / "cat.html").stat().st_size < 1_000_000
    page = open_page(f"{(tmp_path / 'cat.html').as_uri()}#head=self.5.11", offline=True)
    np.testing.assert_allclose(map_numbers(page, saved), cat.weights(5, 11), atol=1e-5)
    assert page.locator(".heedmap").get_attribute("data-engine") == "worker"
    assert page.locator("main .note").count() == 0


def test_an_exported_file_says_what_it_left_out(open_page: Callable[..., Page], larger: Run, tmp_path: Path) -> None:
    size = len(script().encode()) + 250_000
    [result] = export([larger], tmp_path / "part.html", max_bytes=size, first=[("self", 2, 3)])
    assert 0 < len(result.exact) < 12
    page = open_page((tmp_path / "part.html").as_uri())
    assert "2.3" in page.locator("[data-panel=map] h2").inner_text(), "opens on a head that it holds"
    assert page.locator(".head.held").count() == len(result.exact)
    assert page.locator(".page > .note").inner_text() == result.note
    page.wait_for_selector(".status[data-exact=true]")
    _, layer, head = next(key for key in larger.heads if key not in result.exact)
    page.get_by_role("button", name=f"Head {layer}.{head},").click()
    page.wait_for_selector("text=Exact zoom is off for this head")
    page.wait_for_selector(".status[data-exact=false]")
    page.settled()
    assert page.locator("[role=alert]").count() == 0, "what is left out is no failure"


def test_heads_whose_tables_were_left_out_have_pooled_profiles(
    open_page: Callable[..., Page], made: Any, tmp_path: Path
) -> None:
    weights = np.random.default_rng(4).dirichlet(np.full(600, 0.1), (2, 3, 600))
    weights[1, 2] = 0.4 * weights[1, 2] + 0.6 * made.on(600, 123)
    run = made.make_run(tmp_path / "long", weights, keep_inputs=False)
    [result] = export([run], tmp_path / "long.html", max_bytes=len(script().encode()) + 100_000)
    assert (result.tables, result.exact) == (0, ())
    page = open_page(f"{(tmp_path / 'long.html').as_uri()}#head=self.1.2&centre=profiles&textView=receives")
    page.until("document.querySelectorAll('.profiles figure').length === 3")
    assert page.locator(".page > .note").inner_text() == result.note
    assert page.locator(".profiles figure").count() == 3
    assert "lowest and the highest of about 2 positions" in page.locator(".profiles .note").inner_text()
    assert page.locator(".profiles .mark").first.text_content().startswith("token123 0.6")
    assert "only pooled" in page.locator("[data-panel=text] .note").inner_text()


def test_where_no_worker_may_start_the_page_computes_the_same(
    open_page: Callable[..., Page], saved: Callable[..., bytes], serve: Callable[..., str], larger: Run
) -> None:
    page = open_page(f"{serve(larger)}#head=self.1.1", script=BLOCKED)
    np.testing.assert_allclose(map_numbers(page, saved), larger.weights(1, 1), atol=1e-5)
    assert page.locator(".heedmap").get_attribute("data-engine") == "page"


@pytest.mark.parametrize("colour", ["log", "linear"])
def test_without_webgl_a_plain_canvas_draws_the_same_picture(
    open_page: Callable[..., Page], serve: Callable[..., str], larger: Run, colour: str
) -> None:
    url = f"{serve(larger)}#head=self.1.1&colour={colour}"
    pictures = []
    for script_, kind in ((None, "webgl2"), (NO_WEBGL, "canvas")):
        page = open_page(url, script=script_)
        page.wait_for_selector(".status[data-exact=true][data-busy=false]")
        assert page.locator(".matrix").get_attribute("data-renderer") == kind
        pictures.append(imread(io.BytesIO(page.locator(".matrix").screenshot())))
    different = np.abs(pictures[0] - pictures[1]).max(axis=-1) > 0.02  # a step or two of the colour table
    assert different.mean() < 0.02  # edges of cells may fall on another pixel
    assert len(np.unique(pictures[0].reshape(-1, 4), axis=0)) > 50, "there is a picture"


def test_a_run_that_vanished_is_told_on_the_page(
    open_page: Callable[..., Page], serve: Callable[..., str], larger: Run, tmp_path: Path
) -> None:
    copy = Path(copytree(larger.path, tmp_path / "gone"))
    url = serve(open_run(copy))
    (copy / "head.parquet").unlink()
    page = open_page(url, wait=False)
    page.wait_for_selector("[role=alert] >> text=head.parquet")
    page.wrong.clear()  # the browser itself reports the refused request


def test_a_truncated_file_is_told_on_the_page(
    open_page: Callable[..., Page], serve: Callable[..., str], larger: Run, tmp_path: Path
) -> None:
    copy = Path(copytree(larger.path, tmp_path / "cut"))
    url = serve(open_run(copy))
    content = (copy / "inputs.safetensors").read_bytes()
    (copy / "inputs.safetensors").write_bytes(content[: len(content) // 2])
    page = open_page(f"{url}#head=self.2.3")
    page.wait_for_selector("[role=alert] >> text=truncated")
    page.wrong.clear()


def test_a_map_that_cannot_be_read_says_nothing_of_its_cells(
    open_page: Callable[..., Page], serve: Callable[..., str], larger: Run, tmp_path: Path
) -> None:
    copy = Path(copytree(larger.path, tmp_path / "emptied"))
    page = open_page(f"{serve(open_run(copy))}#head=self.2.3")
    page.wait_for_selector(".status >> text=cell")
    for file in ("maps.safetensors", "inputs.safetensors"):
        (copy / file).unlink()
    page.go("head=self.1.0")
    page.wait_for_selector("[role=alert] >> text=open the run again")
    assert page.locator(".status").inner_text().strip() == ""
    page.wrong.clear()


def test_a_run_without_inputs_says_that_exact_zoom_is_off(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Path
) -> None:
    run = made.make_run(tmp_path / "bare", made.uniform(9)[None, None], keep_inputs=False)
    page = open_page(serve(run))
    page.wait_for_selector("text=written without query and key")
    assert page.locator(".matrix canvas").count() == 1


def test_the_widget_reads_through_messages(open_page: Callable[..., Page], cat: Run, tmp_path: Path) -> None:
    """The contract of anywidget, played by hand: `render` gets a model and an element; two views share one model."""
    files = RunFiles(cat)
    page = open_page("about:blank", wait=False)

    def answer(asked: dict[str, Any]) -> list[int] | None:
        return list(files.read(asked["path"], asked["start"], asked["end"])) if asked["path"] in files else None

    page.expose_function("kernel", answer)
    page.set_content(HOST)
    page.evaluate("code => start(code)", script())
    for name in ("#a", "#b"):
        page.settled(page.locator(name))
    assert page.locator("#a .head").count() == 72
    np.testing.assert_allclose(map_numbers(page.locator("#a"), saved_in(page, tmp_path)), cat.weights(5, 11), atol=1e-5)
    page.locator("#b .head").nth(1).click()
    page.until("() => model.state.state.includes('head=self.0.1')")
    page.evaluate("() => cleanups.forEach(clean => clean())")
    assert page.locator("main.panels").count() == 0


HOST = """<!doctype html><div id="a"></div><div id="b"></div><script>
const listeners = []
const model = {
  state: { runs: ['cat'], state: 'head=self.5.11', height: 700 },
  get(name) { return this.state[name] },
  set(name, value) { this.state[name] = value },
  save_changes() {},
  on(event, listener) { listeners.push(listener) },
  off(event, listener) { listeners.splice(listeners.indexOf(listener), 1) },
  async send(asked) {
    const bytes = await kernel(asked)
    const answer = bytes ? { id: asked.id } : { id: asked.id, error: 'no such file' }
    for (const listen of [...listeners]) listen(answer, bytes ? [new DataView(new Uint8Array(bytes).buffer)] : [])
  },
}
const cleanups = []
async function start(code) {
  const module = await import(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })))
  for (const id of ['a', 'b']) cleanups.push(module.default.render({ model, el: document.getElementById(id) }))
}
</script>"""


def saved_in(page: Page, tmp_path: Path) -> Callable[..., bytes]:
    def save(scope: Any, panel: str, item: str) -> bytes:
        section = scope.locator(f"[data-panel={panel}]")
        section.get_by_role("button", name="Save", exact=False).click()
        with page.expect_download() as download:
            section.get_by_role("menuitem", name=item).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path.read_bytes()

    return save
