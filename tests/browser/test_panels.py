"""Every panel of the served page, on a real run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.browser.reading import exact, table

from heedmap.runs.reader import Run

Page = Any
IT, CAT = 8, 2


@pytest.fixture(scope="module")
def url(cat: Run, serve: Callable[..., str]) -> str:
    return serve(cat)


def test_the_page_opens_on_the_most_telling_head(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(url)
    exact(page)
    assert re.search(r"Head \d+\.\d+", page.locator("[data-panel=map] h2").inner_text())
    assert page.locator("[data-panel=heads] .head").count() == 72
    assert page.locator(".heedmap").get_attribute("data-engine") == "worker"
    assert page.locator(".matrix").get_attribute("data-renderer") == "webgl2"


def test_the_worker_reads_the_run_by_itself(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    exact(page)
    read = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name.rsplit("/", 1)[-1] for name in read if name.startswith("http")] == ["viewer.js"]


def test_a_window_is_asked_for_once(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.5.11")
    windows = "performance.getEntriesByName('heedmap window').length"
    assert page.evaluate(windows) == 1, "what arrives later of the run asks for nothing again"
    page.go("head=self.5.10")
    assert page.evaluate(windows) == 2


def test_nothing_is_saved_of_a_head_while_another_is_still_shown(
    open_page: Callable[..., Page], saved: Callable[..., bytes], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    run = made.make_run(tmp_path / "two", np.stack([made.shifted(6, 1), made.uniform(6)])[None])
    page = open_page(f"{serve(run)}#head=self.0.0", script="delete window.Worker")
    holding, held = [True], []
    page.route("**/*.safetensors", lambda route: held.append(route) if holding else route.continue_())
    page.evaluate("location.hash = 'head=self.0.1'")
    page.wait_for_selector("[data-panel=map] h2 >> text=0.1")
    panel = page.locator("[data-panel=map]")
    assert panel.get_attribute("aria-busy") == "true"
    page.get_by_role("button", name="Save Map").click()
    panel.get_by_role("menuitem", name="Table (CSV)").click()
    panel.get_by_role("alert").get_by_text("still being read").wait_for()
    holding.clear()
    for route in held:
        route.continue_()
    page.settled()
    _, rows = table(saved(page, "map", "Table (CSV)"))
    np.testing.assert_allclose([[float(value) for value in row[1:]] for row in rows], 1 / 6, atol=1e-6)


def test_the_numbers_of_the_map_are_those_of_the_run(
    open_page: Callable[..., Page], saved: Callable[..., bytes], url: str, cat: Run
) -> None:
    page = open_page(f"{url}#head=self.5.11")
    exact(page)
    columns, rows = table(saved(page, "map", "Table (CSV)"))
    assert columns[1 + CAT] == "2 cat"
    weights = np.array([[float(value) for value in row[1:]] for row in rows])
    np.testing.assert_allclose(weights, cat.weights(5, 11), atol=1e-5)


def test_a_click_on_a_head_opens_it(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    page.get_by_role("button", name="Head 3.4,").click()
    page.until("location.hash.includes('head=self.3.4')")
    page.settled()
    assert "3.4" in page.locator("[data-panel=map] h2").inner_text()


def test_arrow_keys_move_among_heads_and_enter_opens(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.2.2")
    page.locator(".head[aria-current=true]").focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.until("location.hash.includes('head=self.3.3')")


def test_hover_tells_the_pair_exactly(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#head=self.5.11")
    exact(page)
    box = page.locator(".matrix canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * (CAT + 0.5) / 12, box["y"] + box["height"] * (IT + 0.5) / 12)
    page.wait_for_selector(".readout[aria-busy=false] >> text=weight")
    told = page.locator(".readout").inner_text()
    assert re.sub(r"\s+", " ", told).startswith("it → cat")
    assert f"weight {cat.weights(5, 11, IT, CAT)[0, 0]:.3f}" in told
    assert f"score {cat.scores(5, 11, IT, CAT)[0, 0]:.3f}" in told
    assert "distance 6" in told


def test_a_click_pins_and_the_query_is_ranked_as_by_numpy(
    open_page: Callable[..., Page], saved: Callable[..., bytes], url: str, cat: Run
) -> None:
    page = open_page(f"{url}#head=self.5.11")
    exact(page)
    box = page.locator(".matrix canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] * (CAT + 0.5) / 12, box["y"] + box["height"] * (IT + 0.5) / 12)
    page.until("location.hash.includes('query=8') && location.hash.includes('key=2')")
    page.settled()
    columns, rows = table(saved(page, "query", "Table (CSV)"))
    assert columns == ["rank", "position", "key", "raw_score", "score", "weight", "value_norm", "weight_times_norm"]
    weights = cat.weights(5, 11, IT)[0]
    assert [int(row[1]) for row in rows] == np.argsort(-weights, kind="stable").tolist()
    np.testing.assert_allclose([float(row[5]) for row in rows], np.sort(weights)[::-1], atol=1e-5)
    raw = cat.raw_scores(5, 11, IT)[0]
    np.testing.assert_allclose([float(row[3]) for row in rows], raw[[int(row[1]) for row in rows]], rtol=1e-5)
    assert f"sum {raw[CAT]:.2f}" in page.locator(".dimensions figcaption").inner_text()
    assert page.locator(".dimensions rect").count() == 32


def test_wheel_keys_and_drag_zoom_and_move(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.5.11")
    exact(page)
    box = page.locator(".matrix canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -300)
    page.until("location.hash.includes('view=')")
    before = page.evaluate("location.href")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 80, box["y"] + box["height"] / 2 + 40, steps=4)
    page.mouse.up()
    page.until("before => location.href !== before", before)
    assert page.locator(".axes .pin rect").count() == 0, "a drag pins nothing"
    assert "query=" not in page.evaluate("location.href")
    page.locator(".matrix").focus()
    page.keyboard.press("0")
    page.until("!location.hash.includes('view=')")
    page.keyboard.press("+")
    page.until("location.hash.includes('view=')")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    page.until("location.hash.includes('query=')")


def test_the_text_is_tinted_by_what_the_pinned_query_attends_to(
    open_page: Callable[..., Page], url: str, cat: Run
) -> None:
    page = open_page(f"{url}#head=self.5.11&query=8")
    page.until("document.querySelector('[data-token=\"2\"]')?.style.background")
    assert page.locator(".tokens").inner_text().split() == ["[CLS]", *cat.text.split(), "[SEP]"]
    assert page.locator('[data-token="2"]').get_attribute("title").endswith(f"{cat.weights(5, 11, IT, CAT)[0, 0]:.3f}")
    page.get_by_role("radio", name="Receives").click()
    received = cat.table("key", layer=5, head=11).column("received_mean").to_numpy()
    page.until("told => document.querySelector('[data-token=\"2\"]').title.endsWith(told)", f"{received[CAT]:.3f}")


def test_hovering_a_token_shows_its_row(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.5.11")
    page.locator('[data-token="8"]').hover()
    page.wait_for_selector("[data-panel=text] >> text=What it attends to")
    page.locator('[data-token="8"]').click()
    page.until("location.hash.includes('query=8')")


def test_short_texts_have_lines(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#head=self.5.11&textView=lines&query=8")
    page.wait_for_selector(".flow")
    assert page.locator(".flow").count() == int((cat.weights(5, 11) > 0.01).sum())
    assert f"{cat.weights(5, 11, IT, CAT)[0, 0]:.3f}" in page.locator(".lines").text_content()


@pytest.mark.parametrize("view", ["Maps", "Scatter", "Table"])
def test_heads_can_be_seen_four_ways(open_page: Callable[..., Page], url: str, view: str) -> None:
    page = open_page(url)
    page.get_by_role("radio", name=view).click()
    shown = {"Maps": ".head canvas", "Scatter": ".point", "Table": "[data-panel=heads] tbody tr"}[view]
    page.until("shown => document.querySelectorAll(shown).length === 72", shown)  # long tables grow


def test_the_table_of_heads_sorts_by_any_column(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#headView=table")
    page.get_by_role("button", name="entropy").click()
    entropy = cat.table("head").column("entropy").to_numpy()
    first = page.locator("[data-panel=heads] tbody tr").first
    part, layer, head = cat.heads[int(np.argmax(entropy))]
    assert first.locator("th").inner_text() == f"{layer}.{head}"
    page.get_by_role("button", name="entropy").click()
    part, layer, head = cat.heads[int(np.argmin(entropy))]
    assert first.locator("th").inner_text() == f"{layer}.{head}"
    assert part == "self"


def test_a_table_that_is_cut_says_so_and_moves_sideways(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#headView=table")
    page.wait_for_selector(".sideways.more")
    assert "columns" in page.locator("[data-panel=heads] .pages").inner_text()
    more = page.get_by_role("button", name="More columns")
    told = (  # the button hears of a move one event after the table has moved
        "before => { const box = document.querySelector('.sideways .scroll');"
        " const end = box.scrollWidth - box.clientWidth - 1;"
        " const more = document.querySelector(\"[aria-label='More columns']\");"
        " return box.scrollLeft > before && more.disabled === (box.scrollLeft >= end) }"
    )
    page.until(told, -1)
    for _ in range(20):
        if more.is_disabled():
            break
        at = page.locator("[aria-label='Table of heads']").evaluate("element => element.scrollLeft")
        more.click()
        page.until(told, at)
    assert more.is_disabled()
    assert page.locator(".sideways.more").count() == 0, "nothing is left on the right"
    edges = page.evaluate(
        "() => { const box = document.querySelector('.sideways .scroll').getBoundingClientRect();"
        " const row = document.querySelector('.sideways tbody tr');"
        " return [row.firstElementChild.getBoundingClientRect().left - box.left,"
        " box.right - row.lastElementChild.getBoundingClientRect().right] }"
    )
    assert edges == pytest.approx([0, 0], abs=2), "the name stays, and the last column is seen whole"


def test_heads_are_coloured_by_any_statistic_or_by_type(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.0.2")
    page.get_by_label("coloured by").select_option("type")
    page.wait_for_selector(".kinds >> text=token before")
    assert page.get_by_role("button", name="Head 0.2, previous").count() == 1


def test_profiles_show_three_curves(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.0.2&centre=profiles")
    page.until("document.querySelectorAll('.profiles figure path.line').length >= 4")  # two curves by distance
    assert page.locator(".profiles figure").count() == 3
    assert "looking ahead" in page.locator(".profiles").inner_text()


def test_sinks_are_marked(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    received = np.array([cat.table("key", layer=n, head=h).column("received_mean")[0].as_py() for _, n, h in cat.heads])
    _, layer, head = cat.heads[int(received.argmax())]
    page = open_page(f"{url}#head=self.{layer}.{head}&centre=profiles")
    page.wait_for_selector(".profiles .mark")
    assert f"[CLS] {received.max():.3f}" in page.locator(".profiles .mark").first.text_content()


def test_two_heads_compare_as_a_difference(
    open_page: Callable[..., Page], saved: Callable[..., bytes], url: str, cat: Run
) -> None:
    page = open_page(f"{url}#head=self.5.11&centre=compare&otherHead=self.0.2")
    assert page.locator(".compare .matrix").count() == 3
    _, rows = table(saved(page, "compare", "Table (CSV)"))
    difference = np.array([[float(value) for value in row[1:]] for row in rows])
    np.testing.assert_allclose(difference, cat.weights(5, 11) - cat.weights(0, 2), atol=2e-5)


def test_a_link_reopens_the_same_view(open_page: Callable[..., Page], url: str) -> None:
    link = "head=self.4.1&query=3&key=5&centre=profiles&textView=receives&headView=scatter&theme=dark"
    page = open_page(f"{url}#{link}", permissions=["clipboard-read", "clipboard-write"])
    assert page.locator(".heedmap").get_attribute("data-theme") == "dark"
    assert "4.1" in page.locator(".profiles h2").inner_text()
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_selector("text=Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    again = open_page(copied)
    assert again.locator(".scatter").count() == 1
    assert sorted(copied.split("#")[1].split("&")) == sorted(link.split("&"))


@pytest.mark.parametrize("view", ["3_900_5_900", "1e300_2e300_-9_4", "5_5.1_5_5.1"])
@pytest.mark.parametrize("centre", ["map", "compare"])
def test_a_view_that_a_link_asks_for_stays_within_the_matrix(
    open_page: Callable[..., Page], saved: Callable[..., bytes], url: str, centre: str, view: str
) -> None:
    page = open_page(f"{url}#head=self.5.11&centre={centre}&view={view}")
    assert page.locator("[role=alert]").count() == 0
    columns, rows = table(saved(page, centre, "Table (CSV)"))
    assert 4 <= len(rows) <= 12
    assert 5 <= len(columns) <= 13


@pytest.mark.parametrize("centre", ["map", "compare"])
def test_the_whole_looks_the_same_before_and_after_zooming_in(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any, centre: str
) -> None:
    """Of a matrix that is too large to be computed at once."""
    n = 700
    run = made.make_run(tmp_path / "run", np.stack([made.shifted(n, 1), made.uniform(n)])[None])
    page = open_page(f"{serve(run)}#head=self.0.0&centre={centre}")
    matrix = page.locator(".matrix").last
    legends, picture = page.locator(".legends").all_inner_texts(), matrix.screenshot()
    page.go(f"head=self.0.0&centre={centre}&view=300_340_300_340")
    assert matrix.screenshot() != picture
    page.go(f"head=self.0.0&centre={centre}")
    assert page.locator(".legends").all_inner_texts() == legends
    assert matrix.screenshot() == picture


def test_the_query_tells_the_length_of_each_value(
    open_page: Callable[..., Page], saved: Callable[..., bytes], url: str, cat: Run, minilm_folder: Any
) -> None:
    import torch

    from heedmap.capture.models import resolve

    page = open_page(f"{url}#head=self.2.3&query=3")
    assert "w‖v‖" in page.locator(".ranked thead").inner_text()
    columns, rows = table(saved(page, "query", "Table (CSV)"))
    assert columns[-2:] == ["value_norm", "weight_times_norm"]
    loaded: Any = resolve(str(minilm_folder))
    with torch.no_grad():
        hidden = loaded.model(
            **loaded.tokenizer(cat.text, return_tensors="pt"), output_hidden_states=True
        ).hidden_states[2]
        attention = loaded.model.encoder.layer[2].attention.self
        norms = attention.value(hidden)[0].view(-1, 12, 32)[:, 3].norm(dim=-1).numpy()
    for row in rows:
        assert float(row[6]) == pytest.approx(norms[int(row[1])], rel=1e-4)
        assert float(row[7]) == pytest.approx(norms[int(row[1])] * float(row[5]), rel=1e-4)
