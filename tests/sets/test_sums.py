"""Sums of parts are the sums of the whole."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from heedmap.errors import RunError
from heedmap.sets import examples
from heedmap.sets.sums import Sums, of_values

HEADS = [("self", 0, 0), ("self", 0, 1), ("self", 1, 0)]
VALUES = ["entropy", "previous"]


def of(values: np.ndarray, texts: np.ndarray) -> Sums:
    empty = Sums.empty(HEADS, VALUES, [])
    return Sums(empty.heads, empty.values, empty.types, empty.arrays | of_values(values, texts))


@pytest.fixture
def values() -> np.ndarray:
    """`[texts, values, heads]` with gaps, ties, and one value that no text has."""
    drawn = np.random.default_rng(4).normal(5, 2, (40, 2, 3)).round(1)
    drawn[np.random.default_rng(5).random(drawn.shape) < 0.2] = np.nan
    drawn[:, 1, 2] = np.nan
    drawn[:30, 0, 0] = np.nan  # a first part without any
    return drawn


@pytest.mark.parametrize("cuts", [[20], [1, 2, 30], [7, 7, 31], [39]])
def test_parts_merge_to_the_whole(values: np.ndarray, cuts: list[int]) -> None:
    numbers = np.arange(40) * 3
    total = None
    for part, own in zip(np.split(values, cuts), np.split(numbers, cuts), strict=True):
        total = of(part, own) if total is None else total.merge(of(part, own))
    assert total is not None
    whole = of(values, numbers)
    for name in ("count", "least", "most", "high", "high_text", "low", "low_text"):
        np.testing.assert_array_equal(total.arrays[name], whole.arrays[name], err_msg=name)
    has = whole.arrays["count"] > 0
    np.testing.assert_allclose(total.arrays["mean"][has], np.nanmean(values[:, has], 0), rtol=1e-13)
    expected = np.nanstd(values[:, has], 0) ** 2 * whole.arrays["count"][has]
    np.testing.assert_allclose(total.arrays["deviations"][has], expected, rtol=1e-12)
    assert whole.arrays["high_text"][1, 2].tolist() == [-1] * 10


@pytest.mark.parametrize("count", [3, 10, 11, 40])
def test_examples_are_the_ends_of_all_texts_in_order(values: np.ndarray, count: int) -> None:
    sums = of(values[:count], np.arange(count) * 3)
    for (value, head), end in itertools.product(np.ndindex(2, 3), ("high", "low")):
        own = [(x, 3 * at) for at, x in enumerate(values[:count, value, head].tolist()) if not np.isnan(x)]
        own.sort(key=lambda pair: (-pair[0] if end == "high" else pair[0], pair[1]))
        few = [*own[:10], *[(np.nan, -1)] * 10][:10]
        np.testing.assert_array_equal(sums.arrays[end][value, head], [x for x, _ in few])
        np.testing.assert_array_equal(sums.arrays[f"{end}_text"][value, head], [text for _, text in few])


def test_of_equal_values_the_earlier_text_is_the_example() -> None:
    sums = of(np.ones((30, 2, 3)), np.arange(100, 130))
    assert sums.arrays["high_text"][0, 0].tolist() == list(range(100, 110))
    assert sums.arrays["low_text"][1, 2].tolist() == list(range(100, 110))


def test_sums_are_the_same_after_the_disk(values: np.ndarray, tmp_path: Path) -> None:
    sums = of(values, np.arange(40))
    (tmp_path / "sums").write_bytes(sums.dump())
    found = Sums.load(str(tmp_path / "sums"))
    assert (found.heads, found.values) == (sums.heads, sums.values)
    assert found.dump() == sums.dump()


def test_sums_of_other_heads_and_damaged_ones_are_refused(values: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the same heads and values in every shard"):
        of(values, np.arange(40)).merge(Sums.empty(HEADS[:2], VALUES, []))
    content = of(values, np.arange(40)).dump()
    changed = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in (-1, -1000, len(content) // 2)]
    for damaged in (b"", content[:100], content[:-1], *changed):
        (tmp_path / "sums").write_bytes(damaged)
        with pytest.raises(RunError, match="the sums of a shard"):
            Sums.load(str(tmp_path / "sums"))
    short = Sums(tuple(HEADS[:2]), tuple(VALUES), (), of(values, np.arange(40)).arrays)
    (tmp_path / "sums").write_bytes(short.dump())
    with pytest.raises(RunError, match="arrays of other names or shapes"):
        Sums.load(str(tmp_path / "sums"))


def test_many_texts_are_sampled_alike_whatever_the_shards(made_set, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedmap.sets.finishing import merged
    from heedmap.sets.shards import finished

    found = made_set()
    shards = [shard for number in range(3) if (shard := finished(found.path, number)) is not None]
    every = examples.deciles(found.path, shards, merged(found.path, shards))
    assert every.equals(found.table("deciles"))
    monkeypatch.setattr(examples, "SAMPLE", 6)
    chosen = examples._sample(found.path, shards, len(found.heads))
    texts = np.array([row["text"] for row in found.table("texts").to_pylist() if row["reason"] is None])
    assert chosen.tolist() == sorted(texts[np.argsort(examples._hash(texts))[:6]].tolist())
    some = examples.deciles(found.path, shards, merged(found.path, shards))
    assert set(some.column("text").to_pylist()) <= set(chosen.tolist())
