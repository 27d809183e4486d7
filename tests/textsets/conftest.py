"""Tiny models in folders, saved once for the session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import made_sets


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``model_folder("bert", seed=3)``: the folder of a tiny model with a tokenizer of its own."""
    made: dict[tuple[str, int], Path] = {}

    def build(family: str = "bert", seed: int = 3) -> Path:
        if (family, seed) not in made:
            made[family, seed] = made_sets.model_folder(tmp_path_factory.mktemp(family), family, seed)
        return made[family, seed]

    return build
