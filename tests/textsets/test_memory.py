"""A scan holds what a shard needs, however many shards came before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.made_sets import json_lines, texts

from heedmap.textsets import measurer
from heedmap.textsets.scan import scan


def test_every_shard_gives_its_memory_back(model_folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(measurer, "give_back", told.append)
    source = json_lines(tmp_path / "texts.jsonl", texts(6, 10))
    found = scan(source, model_folder(), out=tmp_path / "set", shard_texts=4)
    tokens = [row["tokens"] for row in found.table("texts").to_pylist()]
    assert told == [sum(tokens[:4]), sum(tokens[4:])]
