from __future__ import annotations

import io
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.cells import cell_len

from heedmap.cli.summary import Summary, printable

LABELS = ["[CLS]", "the", "cat", "sat", "the", "it", "[SEP]"]
N = len(LABELS)


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def _run(made: ModuleType, path: Path, labels: list[str] = LABELS, **options):
    reads = np.eye(N)
    reads[5] = 0.68 * np.eye(N)[2] + 0.32 * np.eye(N)[5]
    weights = np.array([[made.shifted(N, 1), made.uniform(N)], [made.on(N, 0), reads]])
    return made.make_run(path, weights, labels, special=(0, 6), **options)


def _printed(run, width: int | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> str:
    if width is not None and monkeypatch is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    Summary(run).print(stream)
    return stream.getvalue()


def test_it_tells_what_was_looked_at_and_what_it_cost(made: ModuleType, tmp_path: Path):
    text = _printed(_run(made, tmp_path / "run", text="the cat sat the it"))
    assert "“the cat sat the it” · 7 tokens" in text
    assert "made · BertModel · 2 layers × 2 heads · float32" in text
    assert "0.75 s (load 0.50 s, forward 0.20 s) · peak memory 345 MB" in text
    assert "output_attentions would have held 41.5 kB of weights" in text
    assert "✓ within 6.0e-08 of the model's own eager attention (budget 1.0e-05, largest in head 0.1," in " ".join(
        text.split()
    )
    assert "over the first 3 tokens)" in " ".join(text.split())


def test_it_tells_the_most_telling_heads_with_values(made: ModuleType, tmp_path: Path):
    lines = _printed(_run(made, tmp_path / "run")).splitlines()
    assert next(line for line in lines if "the token before" in line).split()[3:5] == ["0.0", "1.00"]
    assert next(line for line in lines if "the first token" in line).split()[3:5] == ["1.0", "1.00"]
    assert next(line for line in lines if "entropy" in line).split()[5:7] == ["0.1", "1.95"]


def test_it_tells_the_strongest_pairs_and_which_of_equal_words_are_meant(made: ModuleType, tmp_path: Path):
    reads = np.eye(N)
    reads[5] = 0.68 * np.eye(N)[2] + 0.32 * np.eye(N)[5]
    reads[1] = 0.4 * np.eye(N)[3] + 0.6 * np.eye(N)[1]
    run = made.make_run(tmp_path / "run", np.array([[made.uniform(N), reads]]), LABELS, special=(0, 6))
    lines = [" ".join(line.split()) for line in _printed(run).splitlines()]
    assert "it → cat 0.68 head 0.1" in lines
    assert "the #1 → sat 0.40 head 0.1" in lines


def test_a_model_that_was_never_trained_has_no_telling_heads_but_broad_ones_and_no_pairs(
    made: ModuleType, tmp_path: Path
):
    noise = np.random.default_rng(3).dirichlet(np.full(12, 200.0), (2, 4, 12))
    labels = ["[CLS]", *"abcdefghij", "[SEP]"]
    summary = Summary(made.make_run(tmp_path / "run", noise, labels, special=(0, 11)))
    assert set(summary.telling) == {"broad"}
    assert summary.pairs == []


def test_the_next_step_is_a_head_whose_weights_can_be_had(made: ModuleType, tmp_path: Path):
    from dataclasses import replace

    run = _run(made, tmp_path / "run", parts=("encoder", "cross"))
    opaque = {"kind": "and", "of": [{"kind": "causal", "offset": 0}, {"kind": "opaque", "why": "a position bias"}]}
    object.__setattr__(run, "layers", [replace(i, mask=opaque) if i.part == "encoder" else i for i in run.layers])
    assert ".weights(1, 1, part='cross')" in _printed(run)
    object.__setattr__(run, "layers", [replace(info, mask=opaque) for info in run.layers])
    assert ".weights(" not in _printed(run)


def test_it_says_where_the_run_is_and_what_to_do_next(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    text = _printed(_run(made, tmp_path / "my run"))
    assert "heedmap show 'my run' --png heads.png" in text
    assert "heedmap.open_run('my run').weights(1, 1)" in text
    assert "weights(" not in _printed(_run(made, tmp_path / "small", keep_inputs=False))


def test_a_cut_text_and_chosen_layers_and_heads_are_told(made: ModuleType, tmp_path: Path):
    meta = {"text": {"truncated_from": 40_012}, "model": {"name": "big", "layers": 30, "initialised": 0}}
    text = _printed(_run(made, tmp_path / "run", meta=meta, layers=[3, 7], heads=[1]))
    assert "7 tokens (of 40,012; cut)" in text
    assert "big · 2 layers × 1 heads (of 30 × 2)" in text


def test_a_failed_self_check_is_loud(made: ModuleType, tmp_path: Path):
    check = made.META["self_check"] | {"passed": False, "max_abs_error": 0.3}
    summary = Summary(_run(made, tmp_path / "run", meta={"self_check": check}))
    stream = io.StringIO()
    summary.print(stream)
    assert not summary.trusted
    assert "✗ FAILED: 3.0e-01 from the model's own eager attention (budget 1.0e-05" in " ".join(
        stream.getvalue().split()
    )
    assert "warning: the self-check FAILED" in stream.getvalue()


def test_a_run_without_a_self_check_says_so_and_is_not_doubted(made: ModuleType, tmp_path: Path):
    summary = Summary(_run(made, tmp_path / "run", meta={"self_check": None}))
    stream = io.StringIO()
    summary.print(stream)
    assert summary.trusted
    assert "not compared with the model's own eager attention" in stream.getvalue()


def test_a_loaded_implementation_that_differs_from_eager_is_told_with_both_names(made: ModuleType, tmp_path: Path):
    check = made.META["self_check"] | {"loaded_agrees": False, "loaded_difference": 0.02}
    text = _printed(_run(made, tmp_path / "run", meta={"self_check": check}))
    assert "warning: the attention that the model was loaded with differs" in text
    assert "2.0e-02" in text


@pytest.mark.parametrize(("count", "words"), [(1, "1 weight of the model was"), (12, "12 weights of the model were")])
def test_newly_initialised_weights_are_named_loudly(made: ModuleType, tmp_path: Path, count: int, words: str):
    run = _run(made, tmp_path / "run", meta={"model": {"name": "made", "initialised": count}})
    assert f"warning: {words} not in its files and newly initialised" in " ".join(_printed(run).split())
    stream = io.StringIO()
    Summary(run).write_json(stream, [])
    assert words in json.loads(stream.getvalue())["warnings"][0]


def test_a_pipe_gets_plain_text_without_colours_or_trailing_space(made: ModuleType, tmp_path: Path):
    text = _printed(_run(made, tmp_path / "run"))
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert not any("\u2500" <= letter <= "\u257f" for letter in text)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("script", ["Latin", "Korean"])
def test_no_line_is_wider_than_the_terminal(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, script: str
):
    monkeypatch.chdir(tmp_path)
    labels = LABELS if script == "Latin" else ["[CLS]", "고양이는", "매트", "위에", "앉아서", "피곤했기", "[SEP]"]
    text = _printed(_run(made, tmp_path / "run", labels, text=" ".join(labels) * 20), width, monkeypatch)
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_wide_letters_keep_the_columns_aligned(made: ModuleType, tmp_path: Path):
    labels = ["[CLS]", "고양이", "a", "긴긴긴단어", "b", "c", "[SEP]"]
    lines = [line for line in _printed(_run(made, tmp_path / "run", labels)).splitlines() if "→" in line]
    assert len({cell_len(line[: line.index("→")]) for line in lines}) == 1
    assert len({cell_len(line[: line.index("head")]) for line in lines}) == 1


def test_a_terminal_without_unicode_gets_ascii_signs(made: ModuleType, tmp_path: Path):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict", write_through=True)
    Summary(_run(made, tmp_path / "run")).print(stream)
    assert "it  ->  cat" in raw.getvalue().decode()


def test_words_that_an_ascii_terminal_cannot_show_do_not_stop_it(made: ModuleType, tmp_path: Path):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="replace", write_through=True)
    Summary(_run(made, tmp_path / "run", ["[CLS]", "고양이", "a", "b", "c", "d", "[SEP]"])).print(stream)
    assert "head 1.1" in raw.getvalue().decode()


def test_text_cannot_command_the_terminal(made: ModuleType, tmp_path: Path):
    labels = ["[CLS]", "\x1b[31mred", "cat", "[bold]", "\u202eevil", "it", "[SEP]"]
    text = _printed(_run(made, tmp_path / "run", labels, text="\x1b]0;title\x07 [bold]x[/bold]"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text


def test_printable_keeps_joined_emoji_and_drops_what_turns_the_line():
    assert printable("👩\u200d💻\n a\u202eb\u200f") == "👩\u200d💻 ab"


def test_json_is_one_document_with_all_that_was_told(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "run")
    stream = io.StringIO()
    Summary(run, Path("cat.png")).write_json(stream, ["a warning"])
    document = json.loads(stream.getvalue())
    assert document["run"] == str(run.path)
    assert document["picture"] == "cat.png"
    assert document["model"]["name"] == "made"
    assert document["text"]["tokens"] == N
    assert document["layers"] == [{"part": "self", "layer": layer, "heads": [0, 1]} for layer in (0, 1)]
    assert document["self_check"]["passed"] is True
    assert document["telling"]["previous"][0] == {
        "part": "self",
        "layer": 0,
        "head": 0,
        "value": pytest.approx(1.0, abs=1e-6),
        "unit": "weight",
    }
    assert document["pairs"][0] == {
        "query": {"position": 5, "text": "it"},
        "key": {"position": 2, "text": "cat"},
        "weight": pytest.approx(0.68, abs=1e-6),
        "part": "self",
        "layer": 1,
        "head": 1,
    }
    assert document["warnings"] == ["a warning"]


def test_json_escapes_what_the_stream_cannot_hold(made: ModuleType, tmp_path: Path):
    run = _run(made, tmp_path / "run", ["[CLS]", "a", "b", "c", "d", "고양이", "[SEP]"])
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    Summary(run).write_json(stream, [])
    assert any(pair["query"]["text"] == "고양이" for pair in json.loads(raw.getvalue())["pairs"])


def test_the_head_to_draw_is_the_one_that_the_strongest_pairs_name(made: ModuleType, tmp_path: Path):
    assert Summary(_run(made, tmp_path / "run")).head == ("self", 1, 1)


def test_a_single_token_is_summed_up_too(made: ModuleType, tmp_path: Path):
    run = made.make_run(tmp_path / "run", np.ones((1, 1, 1, 1)), ["cat"], causal=True)
    assert "1 token\n" in _printed(run)


def test_parts_of_a_model_are_named(made: ModuleType, tmp_path: Path):
    text = _printed(_run(made, tmp_path / "run", parts=("decoder", "encoder")))
    assert "decoder 0.0  1.00" in text
    assert "part='decoder'" in text
