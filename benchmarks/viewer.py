"""The viewer in headless Chromium: its first picture, and exact windows of 512×512 weights, for one run or several.

    python benchmarks/viewer.py runs/cat runs/alice8192

Server and browser share this machine; Chromium draws in software. A first picture counts from the click on the address
to the first frame with the heads and a map; a window from the question to the numbers, in the page's worker: by a link
straight into a head that was not open, by zooming into one that was, and again. Long tasks are those of the page's own
thread above 50 ms, by what was done: opening, hovering over the text, turning its page, opening each panel.
"""

from __future__ import annotations

import shutil
import statistics
import threading
from typing import Any

import harness
from playwright.sync_api import sync_playwright

from heedmap.runs.reader import Run, open_run
from heedmap.view.server import ViewServer

ARGUMENTS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
]
FIRST = "() => performance.getEntriesByName('heedmap first picture')[0]?.startTime"
WINDOWS = "() => performance.getEntriesByName('heedmap window').map(entry => entry.duration)"
WATCH = """
globalThis.long = []
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) long.push(entry.duration)
}).observe({ type: 'longtask' })
"""
SIDE = 512
UNDISTURBED = 2500
"""Milliseconds before a page that opens is asked anything: the driver's own script would count as the page's."""


def first_picture(browser: Any, url: str) -> float:
    """Milliseconds in a fresh browser profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_timeout(UNDISTURBED)
    while (found := page.evaluate(FIRST)) is None:
        page.wait_for_timeout(20)
    context.close()
    return found


def windows(browser: Any, url: str, run: Run, rounds: int, *, opened: bool) -> tuple[float, float]:
    """Milliseconds of the first exact window of a head, and the median of further ones of the same head.

    `opened`: the head has been on the screen for a while before one zooms in.
    """
    part, layer, head = run.heads[len(run.heads) // 2]
    info = run.layer(layer, part)
    side = min(SIDE, info.query_len)
    page = browser.new_page(viewport={"width": 1280, "height": 860})

    def show(at: int) -> None:
        page.evaluate("link => { location.hash = link }", f"head={part}.{layer}.{head}&view={at}_{at + side}_0_{side}")
        page.wait_for_timeout(50)
        page.wait_for_selector(".status[data-exact=true][data-busy=false]")
        page.wait_for_timeout(400)

    page.goto(url)
    page.wait_for_selector(".status")
    page.wait_for_timeout(1500)
    if opened:
        page.evaluate("link => { location.hash = link }", f"head={part}.{layer}.{head}")
        page.wait_for_timeout(1500)
    before = len(page.evaluate(WINDOWS))
    for turn in range(rounds + 1):
        show(turn * max(1, (info.query_len - side) // (rounds + 1)))
    every = page.evaluate(WINDOWS)
    times = every[before:] or every[-1:]  # of a short text the first window is the whole, and stays
    page.close()
    return times[0], statistics.median(times[1:]) if times[1:] else times[0]


def long_tasks(browser: Any, url: str) -> dict[str, float]:
    """The longest task of the page's own thread while each thing was done, in milliseconds; 0 where none took 50."""
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.add_init_script(WATCH)
    longest: dict[str, float] = {}

    def note(what: str) -> None:
        page.wait_for_timeout(1500)
        longest[what] = max(page.evaluate("long.splice(0)"), default=0)

    page.goto(url, wait_until="commit")
    page.wait_for_timeout(UNDISTURBED)
    note("open")
    for index in range(3):
        page.locator(".token").nth(3 * index).hover()
        page.wait_for_timeout(200)
    note("hover text")
    if page.get_by_role("button", name="Later").count():
        page.get_by_role("button", name="Later").click()
        note("turn page")
    for name in ("Receives", "Profiles", "Compare", "Maps", "Scatter", "Table"):
        page.get_by_role("radio", name=name).click()
        note(name)
    page.close()
    return longest


def main() -> None:
    options = harness.options(__doc__)
    options.add_argument("runs", nargs="+")
    options.add_argument("--rounds", type=harness.count, default=7)
    given = options.parse_args()
    harness.ready()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    document: dict[str, dict[str, Any]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        for path in given.runs:
            run = open_run(path)
            server = ViewServer([run])
            threading.Thread(target=server.serve_forever, daemon=True).start()
            pictures = [first_picture(browser, server.url) for _ in range(given.rounds)]
            linked, again = windows(browser, server.url, run, given.rounds, opened=False)
            zoomed, _ = windows(browser, server.url, run, 0, opened=True)
            document[run.path.name] = {
                "tokens": run.tokens.num_rows,
                "heads": len(run.heads),
                "first_picture_ms": statistics.median(pictures),
                "first_picture_most_ms": max(pictures),
                "window_linked_ms": linked,
                "window_zoomed_ms": zoomed,
                "window_again_ms": again,
                "long_tasks_ms": long_tasks(browser, server.url),
            }
            print(run.path.name, document[run.path.name])
            server.shutdown()
        browser.close()
    harness.finish({"benchmark": "viewer", "runs": document})


if __name__ == "__main__":
    main()
