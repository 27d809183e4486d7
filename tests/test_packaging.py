"""What is built for others to install holds all that building it takes."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_a_source_distribution_holds_every_file_that_its_own_build_reads() -> None:
    project, build = PROJECT["project"], PROJECT["tool"]["scikit-build"]
    assert build["sdist"]["inclusion-mode"] == "explicit"
    read = [
        "pyproject.toml",
        project["readme"],
        *project["license-files"],
        build["cmake"]["source-dir"],
        *build["wheel"]["packages"],
        *(source["input"] for source in PROJECT["tool"]["dynamic-metadata"]),
    ]
    included = [ROOT / path.removeprefix("/") for path in build["sdist"]["include"]]
    for path in read:
        assert (ROOT / path).exists(), path
        assert any((ROOT / path).is_relative_to(part) for part in included), path
    for part in included:
        assert part.exists(), part
