"""How the page of a set looks: charts that fill their place, words for what is not there, texts that stay text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.made_sets import json_lines, model_folder, texts

from heedmap.sets.reader import TextSet
from heedmap.textsets.scan import scan

Page = Any
LONG = "x" * 250
TURNED = "cat \u202edog\u202c \x1b[31mmat"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> TextSet:
    folder = tmp_path_factory.mktemp("sets")
    given = [*texts(4, 12), LONG, TURNED]
    return scan(json_lines(folder / "texts.jsonl", given), model_folder(folder / "model"), out=folder / "set")


@pytest.fixture
def opened(open_page: Callable[..., Page], address: str) -> Callable[..., Page]:
    def ask(link: str = "", **options: Any) -> Page:
        page = open_page(address + link, wait=False, **options)
        page.locator(".set-examples").first.wait_for()
        return page

    return ask


FILLED = """() => [...document.querySelectorAll('svg.chart')].every(chart => {
    const place = chart.closest('figure, section')
    return Math.abs(chart.getBoundingClientRect().width - place.getBoundingClientRect().width) < 1
})"""


@pytest.mark.parametrize("width", [1280, 600, 360])
def test_every_chart_is_as_wide_as_its_place(opened: Callable[..., Page], width: int) -> None:
    page = opened(viewport={"width": width, "height": 900})
    assert page.locator("svg.chart").count() == 4
    page.until(FILLED)
    page.set_viewport_size({"width": 700, "height": 900})
    page.until(FILLED)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    letters = page.locator("svg.chart text").first.evaluate(
        "text => text.getBoundingClientRect().height / parseFloat(getComputedStyle(text).fontSize)"
    )
    assert letters < 1.6  # drawn anew, not stretched


def test_a_head_of_no_type_is_told_in_a_sentence(opened: Callable[..., Page]) -> None:
    def without_types(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"types": []})

    page = opened()
    page.route("**/set/heads/3.json", without_types)
    page.locator(".set-cell").nth(3).click()
    page.get_by_role("heading", name="Head 0.3").wait_for()
    assert "of no type: no average over the texts reaches a type’s bar" in page.locator("main").inner_text()


def test_a_statistic_that_no_head_has_is_told_and_has_no_range(opened: Callable[..., Page], found: TextSet) -> None:
    assert "local" not in {row["statistic"] for row in found.table("means").to_pylist()}
    page = opened("#statistic=max_weight&x=local")
    assert page.locator("svg.chart").first.inner_html().count("no head has both values") == 1
    page.get_by_label("mean of").select_option("local")
    page.get_by_text("no head has a value").wait_for()
    page.get_by_text("no text has a value").first.wait_for()


def test_a_text_that_goes_on_ends_in_an_ellipsis(opened: Callable[..., Page]) -> None:
    shown = opened().locator(".set-examples").first.locator(".set-excerpt").all_inner_texts()
    assert f"{LONG[:200]} …" in shown
    assert sum("…" in text for text in shown) == sum(text.startswith("x") for text in shown)


def test_no_text_turns_the_line_or_hides_in_it(opened: Callable[..., Page]) -> None:
    shown = opened().locator(".set-excerpt").all_inner_texts()
    assert "cat ‹202E›dog‹202C› ␛[31mmat" in shown
