"""The page of a set: all heads, one head's distributions, and texts that lead on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.made_sets import json_lines, model_folder, texts

from heedmap.sets.reader import TextSet
from heedmap.textsets.scan import scan

Page = Any


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> TextSet:
    folder = tmp_path_factory.mktemp("sets")
    given = [*texts(9, 12), "cat </script> <b>bold</b>", ""]
    return scan(json_lines(folder / "texts.jsonl", given), model_folder(folder / "model"), out=folder / "set", keep=1)


@pytest.fixture
def page(open_page: Callable[..., Page], address: str) -> Page:
    page = open_page(address, wait=False)
    page.locator(".set-examples").first.wait_for()
    return page


def test_every_head_is_a_cell_and_a_point_and_opens(page: Page, found: TextSet) -> None:
    assert page.locator(".set-cell").count() == len(found.heads)
    assert page.locator(".set-dot").count() == len(found.heads)
    assert "10 texts" in page.locator("header").inner_text()
    assert "1 text left out" in page.locator("header").inner_text()
    page.locator(".set-cell").nth(6).click()
    page.get_by_role("heading", name="Head 1.2").wait_for()
    page.until("location.hash.includes('head=self+1.2')")
    page.locator(".set-dot").nth(1).click(force=True)
    page.get_by_role("heading", name="Head 0.1").wait_for()


def test_types_are_counted_and_show_their_heads(page: Page, found: TextSet) -> None:
    held = [row for row in found.table("types").to_pylist() if row["holds"]]
    buttons = page.get_by_role("group", name="types of head").get_by_role("button")
    counts = Counter(row["type"] for row in held)
    assert sorted(buttons.all_inner_texts()) == sorted(f"{name} {count}" for name, count in counts.items())
    name, count = counts.most_common()[-1]
    page.get_by_role("button", name=f"{name} {count}", exact=True).click()
    assert page.locator(".set-cell.faded").count() == len(found.heads) - count


def test_kinds_of_token_stand_by_their_names_and_shares(page: Page) -> None:
    rows = page.get_by_role("table", name="attention by kind of token").get_by_role("row").all_inner_texts()
    assert rows[0].startswith("first")
    assert sum(float(row.split()[1]) for row in rows) == pytest.approx(100, abs=0.1)


def test_a_link_opens_its_head_and_value_again(page: Page, open_page: Callable[..., Page]) -> None:
    page.locator(".set-cell").nth(5).click()
    page.get_by_label("mean of").select_option("max_weight")
    page.until("location.hash.includes('statistic=max_weight')")
    again = open_page(page.evaluate("location.href"), wait=False)
    again.get_by_role("heading", name="Head 1.1").wait_for()
    again.get_by_role("heading", name="Texts by decile of max_weight").wait_for()


def test_deciles_are_shown_as_texts_that_stay_text(page: Page, found: TextSet) -> None:
    rows = page.locator(".set-examples").first.locator("li")
    assert rows.count() == 11
    excerpts = {row["text"]: row["excerpt"] for row in found.table("texts").to_pylist()}
    deciles = [
        row["text"] for row in found.table("deciles", layer=0, head=0).to_pylist() if row["statistic"] == "entropy"
    ]
    shown = page.locator(".set-examples").first.locator(".set-excerpt").all_inner_texts()
    assert shown == [excerpts[text] for text in deciles]
    bars = page.get_by_role("img", name="entropy by decile").locator("rect title").all_text_contents()
    assert [bar.split(":")[0] for bar in bars] == [f"decile {decile}" for decile in range(11)]
    assert page.locator(".set-excerpt b").count() == 0


def test_a_click_opens_the_stored_run_or_shows_the_command(page: Page, found: TextSet) -> None:
    page.locator("details summary").first.click()
    page.locator(".set-text:visible").first.click()
    command = page.locator(".set-examples code").first.inner_text()
    assert command.startswith("heedmap look ")
    assert command.endswith(f"--of {found.path}")
    for side in page.locator("details:not([open]) summary").all():
        side.click()
    page.locator(".set-examples a:visible").first.click()
    page.wait_for_selector("main.panels")
    page.until("location.pathname.includes('/text-')")


def test_the_page_follows_a_dark_system(open_page: Callable[..., Page], address: str) -> None:
    page = open_page(address, wait=False, color_scheme="dark")
    page.locator(".set-examples").first.wait_for()
    assert page.locator("#heedmap").get_attribute("data-theme") == "dark"
