"""Tiny models in folders, saved once for the session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import made_sets

from heedmap.textsets.scan import scan


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``model_folder("bert", seed=3)``: the folder of a tiny model with a tokenizer of its own."""
    made: dict[tuple[str, int], Path] = {}

    def build(family: str = "bert", seed: int = 3) -> Path:
        if (family, seed) not in made:
            made[family, seed] = made_sets.model_folder(tmp_path_factory.mktemp(family), family, seed)
        return made[family, seed]

    return build


@pytest.fixture(scope="module")
def alone(given, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of what a module calls ``given``, scanned by one process."""
    out = tmp_path_factory.mktemp("alone") / "set"
    scan(**given, out=out)
    return made_sets.tables(out)
