"""The Korean README keeps step with the English one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH, KOREAN = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.ko.md"))


def test_both_readmes_show_the_same_code() -> None:
    assert re.findall(r"```.*?```", KOREAN, flags=re.DOTALL) == re.findall(r"```.*?```", ENGLISH, flags=re.DOTALL)


def test_both_readmes_name_the_same_statistics() -> None:
    def named(text: str) -> list[str]:
        return [name for row in re.findall(r"(?m)^\|.*$", text) for name in re.findall(r"`(\w+)`", row)]

    assert named(KOREAN) == named(ENGLISH)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", KOREAN):
        assert target.startswith("http") or (ROOT / target).exists(), target
