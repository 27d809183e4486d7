"""What tests read off a page."""

from __future__ import annotations

import csv
import io
from typing import Any

Page = Any


def table(data: bytes) -> tuple[list[str], list[list[str]]]:
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    return rows[0], rows[1:]


def exact(page: Page) -> None:
    page.settled()
    assert page.locator(".status").get_attribute("data-exact") == "true"
