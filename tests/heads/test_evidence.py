from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.heads.evidence import type_heads

N = 60


def values(typing, name: str) -> list[float]:
    return [head.values[name] for head in typing.heads]


def test_positional_heads_have_nine_rows_of_ten_at_one_distance(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", np.array([[made.shifted(N, 1), made.shifted(N, -1), made.shifted(N, 2)]]))
    typing = type_heads(run)
    assert [head.types[:2] for head in typing.heads][:2] == [("previous", "positional"), ("next", "positional")]
    assert values(typing, "positional") == pytest.approx([1.0, 1.0, 0.0])


def test_local_is_the_weight_at_most_five_away(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", np.array([[made.shifted(N, 5), made.shifted(N, 6), made.uniform(N)]]))
    typing = type_heads(run)
    assert values(typing, "local") == pytest.approx([1.0, 6 / N, (11 * N - 30) / N**2], abs=1e-6)
    assert [("local" in head.types) for head in typing.heads] == [True, False, False]


def test_in_a_short_text_nothing_is_local_nor_broad(made: ModuleType, tmp_path: Path) -> None:
    typing = type_heads(made.make_run(tmp_path / "run", np.array([[made.uniform(12)]])))
    assert typing.unjudged["local"] == "in a text of 12 tokens all are near; it takes over 44"
    assert typing.unjudged["broad"] == "entropy over 12 tokens cannot exceed ln 12 = 2.5 nats"
    assert typing.none == typing.heads


def test_broad_is_judged_in_texts_like_those_of_its_source_only(made: ModuleType, tmp_path: Path) -> None:
    typing = type_heads(made.make_run(tmp_path / "short", np.array([[made.uniform(N), made.on(N, 3)]])))
    assert [head.types for head in typing.heads] == [("broad",), ("sink",)]
    assert values(typing, "broad")[0] == pytest.approx(math.log(N), abs=1e-4)
    long = type_heads(made.make_run(tmp_path / "long", np.array([[made.uniform(130)]])))
    assert long.unjudged["broad"] == "entropies compare in texts of at most 128 tokens; this one has 130"


def test_a_sink_is_any_token_that_half_of_the_rows_may_see(made: ModuleType, tmp_path: Path) -> None:
    late = np.where(np.arange(N)[:, None] >= N - 2, made.on(N, N - 2), made.on(N, 0))
    run = made.make_run(tmp_path / "run", np.array([[0.4 * made.on(N, 7) + 0.6 * made.uniform(N), late]]))
    first, second = type_heads(run).heads
    assert (first.sink, first.types) == (7, ("sink",))
    assert first.values["sink"] == pytest.approx(0.4 + 0.6 / N, abs=1e-6)
    assert second.sink == 0
    causal = made.make_run(tmp_path / "causal", np.array([[np.eye(N)]]), causal=True)
    assert type_heads(causal).heads[0].values["sink"] < 0.3, "late keys that few rows see are no sinks"


def test_punctuation_is_known_by_its_letters(made: ModuleType, tmp_path: Path) -> None:
    labels = [",", *(f"w{i}" for i in range(1, 11)), "."]
    start = np.cumsum([0, *(len(label) + 1 for label in labels[:-1])]).tolist()
    end = [at + len(label) for at, label in zip(start, labels, strict=True)]
    weights = np.array([[0.35 * made.on(12, 0) + 0.35 * made.on(12, 11) + 0.3 * made.on(12, 5), made.uniform(12)]])
    run = made.make_run(tmp_path / "run", weights, labels, places=(start, end))
    typing = type_heads(run)
    assert values(typing, "punctuation") == pytest.approx([0.7, 2 / 12], abs=1e-6)
    assert "punctuation" in typing.heads[0].types
    assert (
        type_heads(made.make_run(tmp_path / "plain", weights)).unjudged["punctuation"] == "this text has no punctuation"
    )


def repeated(made: ModuleType, path: Path, after: int, **more):
    """A causal run over 10 tokens twice over whose second half looks `after` places behind the earlier copies."""
    n = 20
    weights = made.on(n, 0)
    weights[10:] = np.eye(n)[np.arange(10) + after]
    return made.make_run(path, np.array([[weights]]), ids=[*range(10), *range(10)], causal=True, **more)


@pytest.mark.parametrize(("after", "name"), [(0, "duplicate"), (1, "induction")])
def test_copies_are_judged_from_the_exact_weights_where_a_run_has_not_measured_them(
    made: ModuleType, tmp_path: Path, after: int, name: str
) -> None:
    typing = type_heads(repeated(made, tmp_path / "run", after))
    assert typing.heads[0].values[name] == pytest.approx(1.0, abs=1e-6)
    assert name in typing.heads[0].types
    without = type_heads(repeated(made, tmp_path / "bare", after, keep_inputs=False))
    assert without.unjudged[name] == "not measured; look with --statistics default,duplicate,induction"


def test_a_text_with_few_copies_says_nothing_about_them(made: ModuleType, tmp_path: Path) -> None:
    typing = type_heads(made.make_run(tmp_path / "run", np.array([[made.uniform(N)]])))
    assert typing.unjudged["induction"] == "tokens of this text with such an earlier copy: 0; it takes 8"


def test_a_run_with_few_statistics_says_what_it_cannot_tell(made: ModuleType, tmp_path: Path) -> None:
    run = made.make_run(tmp_path / "run", np.array([[made.uniform(N)]]), statistics=["entropy"], keep_inputs=False)
    typing = type_heads(run)
    assert [head.types for head in typing.heads] == [("broad",)]
    for name in ("previous", "first", "sink", "punctuation", "local", "positional"):
        assert "look with --statistics default" in typing.unjudged[name]


def test_minilms_known_heads_are_typed_rightly(minilm, minilm_tokenizer, tmp_path: Path) -> None:
    from heedmap.capture.look import look

    text = "The cat sat on the mat because it was tired"
    typing = type_heads(look(text, minilm, minilm_tokenizer, out=tmp_path / "cat"))
    types = {(head.layer, head.head): head for head in typing.heads}
    assert "previous" in types[0, 2].types
    assert types[0, 2].values["previous"] == pytest.approx(1.0, abs=5e-4)
    assert types[1, 8].values["next"] == pytest.approx(0.555, abs=5e-4)
    for head in ((2, 7), (2, 9), (4, 5)):
        assert {"first", "sink"} <= set(types[head].types)
        assert 0.86 < types[head].values["first"] < 0.9
