"""What the README says works."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import heedmap

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_python_runs_and_gives_what_it_says(minilm_folder: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    run, seen, found = names["run"], names["seen"], names["found"]
    assert isinstance(run, heedmap.Run)
    assert run.weights(5, 11)[8, 2] == pytest.approx(0.683, abs=5e-4)
    assert np.asarray(run.tokens["text"])[[8, 2]].tolist() == ["it", "cat"]
    assert seen.calls[0].measurements["entropy"].ndim == 3
    assert found["received_mean"].shape == (1, 9, 4096)


@pytest.mark.parametrize(
    "document",
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))],
)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_the_map_of_rooms_names_every_room() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = [path.parent.name for path in (ROOT / "src" / "heedmap").glob("*/__init__.py")]
    assert [room for room in sorted(rooms) if f"  {room}/" not in architecture] == []
