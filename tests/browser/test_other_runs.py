"""Pages of other runs than one sentence: several at once, of earlier writers, of several parts, with rows left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.browser.reading import exact

from heedmap.runs.reader import Run

Page = Any


def test_runs_of_one_name_are_told_apart(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    runs = []
    for place in ("before", "after"):
        (tmp_path / place).mkdir()
        runs.append(made.make_run(tmp_path / place / "run", made.uniform(5)[None, None]))
    page = open_page(f"{serve(*runs)}#centre=compare&otherRun=1")
    page.wait_for_selector(".compare .matrix >> nth=2")
    assert page.locator("header select option").all_inner_texts() == ["before/run", "after/run"]
    assert page.locator(".compare figcaption").nth(1).inner_text().endswith("· after/run")


def test_two_runs_of_one_text_compare(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    one = made.make_run(tmp_path / "one", made.uniform(5)[None, None])
    other = made.make_run(tmp_path / "other", made.shifted(5, 1)[None, None])
    page = open_page(f"{serve(one, other)}#centre=compare&otherRun=1")
    page.wait_for_selector(".compare .matrix >> nth=2")
    assert "other" in page.locator(".compare").inner_text()


def test_runs_of_different_texts_are_not_compared(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any, cat: Run
) -> None:
    other = made.make_run(tmp_path / "other", made.uniform(12)[None, None])
    page = open_page(f"{serve(cat, other)}#centre=compare&otherRun=1")
    page.wait_for_selector("text=runs of different texts")


def test_a_run_of_an_earlier_writer_ranks_keys_without_the_lengths_of_values(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    run = made.make_run(tmp_path / "early", made.uniform(5)[None, None])
    page = open_page(f"{serve(run)}#query=3")
    page.wait_for_selector("text=does not hold the lengths of the values")
    assert page.locator(".ranked tbody tr").count() == 5
    assert "‖v‖" not in page.locator(".ranked thead").inner_text()


def test_parts_of_a_model_are_told_apart(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    run = made.make_run(tmp_path / "parts", made.shifted(5, 1)[None, None], parts=("encoder", "decoder.cross"))
    page = open_page(f"{serve(run)}#head=decoder.cross.0.0&query=3")
    exact(page)
    assert "decoder.cross 0.0" in page.locator("[data-panel=map] h2").inner_text()
    page.get_by_role("button", name="Head encoder 0.0,").click()
    page.until("() => location.hash.includes('head=encoder.0.0')")


def test_rows_that_were_left_out_show_no_numbers(
    open_page: Callable[..., Page], serve: Callable[..., str], tmp_path: Any
) -> None:
    """Padding in front: its rows are grey, its keys hidden, its query ranks nothing."""
    import torch

    from heedmap import masks
    from heedmap.measure import measure
    from heedmap.runs.writer import RunWriter

    n, valid = 8, torch.tensor([[False] * 3 + [True] * 5])
    query, key = torch.randn(1, 1, n, 4), torch.randn(1, 1, n, 4)
    mask = masks.causal() & masks.padding(valid)
    measured = measure(query, key, mask=mask, valid_queries=valid)
    entry = {
        "part": "self", "layer": 0, "module": "attention", "query_heads": 1, "key_heads": 1, "heads": [0],
        "head_dim": 4,
        "query_len": n, "key_len": n, "query_offset": 0, "key_offset": 0, "scale": 0.5, "softcap": None, "sinks": None,
        "mask": mask.describe(), "cross": False, "kernel": measured.kernel,
    }  # fmt: skip
    with RunWriter(tmp_path / "padded") as writer:
        writer.source("x" * n)
        numbers = list(range(n))
        writer.tokens(
            {
                "position": numbers, "id": numbers, "text": [f"t{i}" for i in numbers], "start": numbers,
                "end": [i + 1 for i in numbers], "word": numbers, "special": [False] * n, "segment": [0] * n,
            }
        )  # fmt: skip
        writer.layer(entry, measured, query[0].numpy(), key[0].numpy())
        run = writer.finish({"model": {"name": "padded"}})
    page = open_page(f"{serve(run)}#query=1&centre=map")
    exact(page)
    page.wait_for_selector("text=This query may attend to nothing.")
    page.get_by_role("radio", name="Profiles").click()
    page.wait_for_selector(".profiles path.line")
