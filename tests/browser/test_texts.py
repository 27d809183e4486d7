"""A token is data, never markup: hostile texts, every script, marks that turn text around."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedmap.runs.reader import Run
from heedmap.view.export import export

Page = Any
HOSTILE = [
    "<img src=x onerror=window.harmed=1>",
    "</script><script>window.harmed=1</script>",
    "\"'><svg onload=window.harmed=1>",
    "javascript:window.harmed=1",
    "{{constructor.constructor('window.harmed=1')()}}",
    "\u202e evil \u2066",
    "a\u0001b\u001bc\u007f",
    "\u200b\ufeff",
    "<!--",
    "]]>&amp;&#60;",
    "=HYPERLINK(1)",
    "한국어",
    "👩‍👩‍👧🏽",
    "عربي",
    "עברית",
    "Z̸̢̛͚̲͊a̷͓̚l̵͎̈g̶̮̋o̸",
    "x" * 3000,
]


@pytest.fixture(scope="module")
def hostile(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    n = len(HOSTILE)
    folder = tmp_path_factory.mktemp("runs") / "<b onclick=alert(1)>&name"
    meta = {"model": {"name": "<script>window.harmed=1</script>", "dtype": "float32", "initialised": 0}}
    return made.make_run(folder, made.uniform(n)[None, None], HOSTILE, text=" ".join(HOSTILE), meta=meta)


@pytest.fixture(params=["served", "exported"])
def page(
    request: pytest.FixtureRequest,
    open_page: Callable[..., Page],
    serve: Callable[..., str],
    hostile: Run,
    tmp_path: Path,
) -> Page:
    if request.param == "served":
        return open_page(f"{serve(hostile)}#query=0&key=1")
    export([hostile], tmp_path / "hostile.html")
    return open_page(f"{(tmp_path / 'hostile.html').as_uri()}#query=0&key=1")


def test_no_token_becomes_markup_or_code(page: Page) -> None:
    page.wait_for_selector(".ranked tbody tr")
    for view in ("Lines", "Receives", "Attends to"):
        page.get_by_role("radio", name=view).click()
        page.settled()
    for panel in ("Profiles", "Compare", "Map"):
        page.get_by_role("radio", name=panel, exact=True).click()
        page.settled()
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script, main svg[onload], main [onclick], main [onerror]").count() == 0
    assert "<img src=x onerror" in page.locator(".tokens").inner_text()
    assert "<script>window.harmed=1</script>" in page.locator(".run-facts").inner_text()


def test_marks_that_hide_or_turn_text_are_shown(page: Page) -> None:
    text = page.locator(".tokens").inner_text()
    assert "‹202E›" in text
    assert "a␁b␛c␡" in text
    assert "‹200B›‹FEFF›" in text
    for mark in "\u202e\u2066\u0001\u001b\ufeff\u200b":
        assert mark not in page.locator("body").inner_text()


def test_other_scripts_stay_what_they_are(page: Page) -> None:
    text = page.locator(".tokens").inner_text()
    for word in ("한국어", "👩‍👩‍👧🏽", "عربي", "עברית"):
        assert word in text


def test_saved_pictures_hold_text_and_no_markup(page: Page, saved: Callable[..., bytes]) -> None:
    picture = saved(page, "text", "Picture (SVG)").decode()
    assert "<script" not in picture
    assert "<img" not in picture
    assert "&lt;img" in picture
    table = saved(page, "query", "Table (CSV)").decode("utf-8-sig")
    assert "'=HYPERLINK(1)" in table


@pytest.mark.parametrize(
    "link", ["head=<img onerror=alert(1)>", "view=%3Cscript%3E", "statistic=__proto__", "x=constructor"]
)
def test_a_hostile_link_opens_the_start(
    open_page: Callable[..., Page], serve: Callable[..., str], hostile: Run, link: str
) -> None:
    page = open_page(f"{serve(hostile)}#{link}&headView=scatter")
    page.wait_for_selector(".point")
    assert page.evaluate("window.harmed") is None


def test_a_text_from_right_to_left_runs_from_right_to_left(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Path
) -> None:
    words = ["שלום", "עולם", "טוב"]
    run = made.make_run(tmp_path / "rtl", made.uniform(3)[None, None], words, text=" ".join(words))
    page = open_page(serve(run))
    boxes = [page.locator(f'[data-token="{i}"]').bounding_box()["x"] for i in range(3)]
    assert boxes[0] > boxes[1] > boxes[2]


def test_a_korean_word_stays_on_one_line(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Path
) -> None:
    """Also where its letters are tokens of their own."""
    text = " ".join(["고양이가", "피곤했기", "때문이다"] * 12)
    letters = [letter for letter in text if letter != " "]
    run = made.make_run(tmp_path / "korean", made.uniform(len(letters))[None, None], letters, text=text)
    page = open_page(serve(run), viewport={"width": 600, "height": 900})
    page.wait_for_selector(f'[data-token="{len(letters) - 1}"]')
    tops = [page.locator(f'[data-token="{i}"]').bounding_box()["y"] for i in range(len(letters))]
    assert len(set(tops)) > 1, "the text has several lines"
    assert all(len(set(tops[at : at + 4])) == 1 for at in range(0, len(letters), 4))
