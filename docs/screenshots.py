"""Takes the pictures of docs/view.md: `python docs/screenshots.py CAT LONG`.

CAT is a run of a short text, LONG one of a long text; needs playwright and Chromium.

    heedmap look "The cat sat on the mat because it was tired" --out runs/cat
    heedmap look --file alice.txt --model smollm2 --tokens 2048 --out runs/alice
    python docs/screenshots.py runs/cat runs/alice
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from heedmap.runs.reader import open_run
from heedmap.view.server import ViewServer

IMAGES = Path(__file__).parent / "images"
ARGUMENTS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
]
WIDE, TALL, NARROW = {"width": 1280, "height": 840}, {"width": 1280, "height": 1250}, {"width": 600, "height": 1000}
EDGE = 12

# name → run, link, what to show (None: the whole window), viewport, colour scheme
PICTURES: dict[str, tuple[int, str, str | None, dict[str, int], str]] = {
    "view": (0, "head=self.5.11&query=8&textView=attends&statistic=entropy", None, WIDE, "light"),
    "view-long": (1, "head=self.10.0", None, WIDE, "light"),
    "view-dark": (1, "head=self.12.3&view=400_460_380_440&query=430", None, WIDE, "dark"),
    "view-narrow": (0, "head=self.5.11&query=8", None, NARROW, "light"),
    "view-heads": (1, "headView=grid&statistic=type", "heads", TALL, "light"),
    "view-maps": (0, "headView=maps&head=self.5.11", "heads", TALL, "light"),
    "view-scatter": (1, "headView=scatter&x=entropy&y=mean_distance", "heads", TALL, "light"),
    "view-map": (1, "head=self.10.0&view=500_700_400_700", "map", TALL, "light"),
    "view-text": (1, "head=self.10.0&textView=receives", "text", TALL, "light"),
    "view-lines": (0, "head=self.5.11&textView=lines&query=8", "text", TALL, "light"),
    "view-query": (0, "head=self.5.11&query=8", "query", TALL, "light"),
    "view-profiles": (1, "head=self.10.0&centre=profiles", "profiles", TALL, "light"),
    "view-compare": (
        1,
        "head=self.10.0&centre=compare&otherHead=self.12.3&view=400_480_400_480",
        "compare",
        WIDE,
        "light",
    ),
}


def picture(browser: Any, url: str, name: str) -> None:
    _, link, panel, viewport, scheme = PICTURES[name]
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=1.5)
    page.goto(f"{url}#{link}")
    for part in ("heads", "text", "query"):  # in this order, the last of all
        page.locator(f"[data-panel={part}]").wait_for(state="attached")
    page.locator("[aria-busy=true]").first.wait_for(state="detached")
    path = IMAGES / f"{name}.png"
    if panel is None:
        page.screenshot(path=path)
    else:
        section = page.locator(f"[data-panel={panel}]")
        section.scroll_into_view_if_needed()
        box = section.bounding_box()
        clip = {
            "x": box["x"] - EDGE,
            "y": box["y"] - EDGE,
            "width": box["width"] + 2 * EDGE,
            "height": box["height"] + 2 * EDGE,
        }
        page.screenshot(path=path, clip=clip, full_page=False)
    page.close()


def main(cat: str, long: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    servers = [ViewServer([open_run(path)]) for path in (cat, long)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        for name, (run, *_) in PICTURES.items():
            picture(browser, servers[run].url, name)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
