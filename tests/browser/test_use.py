"""Saving, the keyboard, screen readers, small and dark screens."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from heedmap.runs.reader import Run

Page = Any
AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = [
    "head=self.5.11&query=8&key=2",
    "headView=scatter&centre=profiles&textView=receives",
    "headView=table&centre=compare&textView=lines",
    "headView=maps&statistic=type&centre=map",
]
PANELS = [
    ("heads", ""),
    ("map", ""),
    ("text", ""),
    ("query", ""),
    ("profiles", "centre=profiles"),
    ("compare", "centre=compare"),
]


@pytest.fixture(scope="module")
def url(cat: Run, serve: Callable[..., str]) -> str:
    return serve(cat)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("link", VIEWS)
def test_axe_finds_nothing_serious(open_page: Callable[..., Page], url: str, link: str, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core comes with `npm ci` in viewer/")
    page = open_page(f"{url}#{link}&theme={theme}")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")["violations"]
    serious = [
        (v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert not serious


@pytest.mark.parametrize(("panel", "link"), PANELS)
def test_every_panel_is_saved_as_svg_and_png(
    open_page: Callable[..., Page], saved: Callable[..., bytes], url: str, panel: str, link: str
) -> None:
    page = open_page(f"{url}#head=self.5.11&query=8&{link}")
    picture = ET.fromstring(saved(page, panel, "Picture (SVG)"))
    words = " ".join(element.text or "" for element in picture.iter() if element.tag.endswith("text"))
    assert len(words) > 20
    if panel in ("map", "compare"):
        assert any(element.tag.endswith("image") for element in picture.iter())
    image = imread(io.BytesIO(saved(page, panel, "Picture (PNG)")))
    width = float(picture.attrib["width"])
    assert image.shape[1] == 2 * width
    assert len(np.unique((image * 255).astype(np.uint8).reshape(-1, 4), axis=0)) > 20, "the picture is not empty"


@pytest.mark.parametrize("width", [600, 1280])
@pytest.mark.parametrize("link", VIEWS)
def test_nothing_sticks_out_sideways(open_page: Callable[..., Page], url: str, link: str, width: int) -> None:
    page = open_page(f"{url}#{link}", viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        "width => [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, .head-body') && "
        "e.getBoundingClientRect().right > width + 1).map(e => e.className.baseVal ?? e.className).slice(0, 5)",
        width,
    )
    assert wide == []


def test_everything_is_reached_by_the_keyboard_and_the_focus_is_seen(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.5.11&query=8")
    page.wait_for_selector(".ranked tbody tr")
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e.getAttribute('aria-label') ?? e.textContent.slice(0, 30), s.outlineStyle + s.outlineWidth] }"
        )
        if name is not None:
            reached.add(name.split(".")[0])
            if page.evaluate("document.activeElement !== document.body"):
                assert outline != "none0px", f"no focus to be seen on {name}"
    for part in ("Copy link", "Grid", "Map", "Log", "Save Map", "Zoom in", "Save Heads", "Attends to", "The text"):
        assert any(name.startswith(part) for name in reached) or part in ("Log", "Grid"), part
    assert any(name.startswith("Attention weights of head 5") for name in reached)


def test_the_menu_opens_moves_and_closes_by_keyboard(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    button = page.get_by_role("button", name="Save Text")
    button.focus()
    page.keyboard.press("Enter")
    page.until("() => document.activeElement.closest('[role=menu]') !== null")
    page.keyboard.press("ArrowDown")
    page.until("() => document.activeElement.textContent === 'Picture (PNG)'")
    page.keyboard.press("Escape")
    page.wait_for_selector("[role=menu]", state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Save Text"


def test_the_theme_follows_the_system_until_one_is_chosen(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url, color_scheme="dark")
    assert page.locator(".heedmap").get_attribute("data-theme") == "dark"
    page.get_by_role("radio", name="Light").click()
    page.until("() => document.querySelector('.heedmap').dataset.theme === 'light'")
    page.until("() => location.hash.includes('theme=light')")


def test_two_fingers_zoom(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.5.11", has_touch=True)
    box = page.locator(".matrix canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    client = page.context.new_cdp_session(page)
    for spread in (20, 40, 80, 120):
        points = [{"x": x - spread, "y": y, "id": 0}, {"x": x + spread, "y": y, "id": 1}]
        client.send(
            "Input.dispatchTouchEvent", {"type": "touchStart" if spread == 20 else "touchMove", "touchPoints": points}
        )
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.until("() => location.hash.includes('view=')")
