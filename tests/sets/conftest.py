"""A small set, made once, and copies of it to damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.made_sets import json_lines, model_folder, texts

from heedmap.sets.reader import TextSet, open_set


@pytest.fixture(scope="session")
def made_set(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TextSet]:
    """``made_set(seed)``: a set of 24 texts, two of them left out, through a tiny model with these random weights."""
    from heedmap.textsets.scan import scan

    folder = tmp_path_factory.mktemp("sets")
    source = json_lines(folder / "texts.jsonl", [*texts(11, 14), "", *texts(11, 14, seed=6), 7])
    made: dict[int, TextSet] = {}

    def build(seed: int = 3) -> TextSet:
        if seed not in made:
            model = model_folder(folder / f"model{seed}", "bert", seed)
            made[seed] = scan(source, model, out=folder / f"set{seed}", shard_texts=9, keep=1)
        return made[seed]

    return build


@pytest.fixture
def copied(made_set, tmp_path: Path) -> Path:
    """A copy of the set."""
    shutil.copytree(made_set().path, tmp_path / "set [1]*")  # letters that stand for others in patterns
    open_set(tmp_path / "set [1]*")
    return tmp_path / "set [1]*"
