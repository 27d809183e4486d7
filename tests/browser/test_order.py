"""What is sorted, turned and hidden on the page, and that its address says so."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heedmap.runs.reader import Run

Page = Any


@pytest.fixture(scope="module")
def url(cat: Run, serve: Callable[..., str]) -> str:
    return serve(cat)


def names(page: Page) -> list[str]:
    return page.locator(".head").evaluate_all("all => all.map(e => /Head (\\S+),/.exec(e.ariaLabel)[1])")


def by_entropy(cat: Run, sign: int) -> list[str]:
    entropy = cat.table("head").column("entropy").to_numpy()
    return [f"{cat.heads[i][1]}.{cat.heads[i][2]}" for i in np.argsort(sign * entropy, kind="stable")]


def test_the_grid_ranks_all_heads_by_the_statistic(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#statistic=entropy")
    assert names(page)[:3] == ["0.0", "0.1", "0.2"]
    page.get_by_label("order").select_option("largest first")
    page.until("() => location.hash.includes('order=largest')")
    assert names(page) == by_entropy(cat, -1)
    assert page.locator(".head").first.inner_text() == by_entropy(cat, -1)[0], "a cell says which head it is"
    page.get_by_label("order").select_option("smallest first")
    page.until("() => location.hash.includes('order=smallest')")
    assert names(page) == by_entropy(cat, 1)


def test_each_layer_is_sorted_in_its_row(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#statistic=entropy&order=layer")
    entropy = cat.table("head").column("entropy").to_numpy().reshape(6, 12)
    wanted = [f"{layer}.{head}" for layer in range(6) for head in np.argsort(-entropy[layer], kind="stable")]
    assert names(page) == wanted


@pytest.mark.parametrize("order", ["place", "layer", "largest"])
def test_arrow_keys_follow_the_order_that_is_seen(
    open_page: Callable[..., Page], url: str, cat: Run, order: str
) -> None:
    page = open_page(f"{url}#statistic=entropy&order={order}&head=self.2.2")
    shown = names(page)
    page.locator(".head[aria-current=true]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    layer, head = shown[shown.index("2.2") + 1].split(".")
    page.until(f"() => location.hash.includes('head=self.{layer}.{head}')")


def test_types_stand_together_where_the_grid_is_ordered_by_them(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#statistic=type&order=largest")
    page.wait_for_selector(".kinds")
    kinds = page.locator(".head").evaluate_all("all => all.map(e => e.ariaLabel.split(', ')[1])")
    changes = sum(a != b for a, b in itertools.pairwise(kinds))
    assert changes == len(set(kinds)) - 1


def test_small_maps_are_sorted_too(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#headView=maps&order=largest")
    page.wait_for_selector(".head canvas")
    assert names(page) == by_entropy(cat, -1)


def test_the_order_of_the_table_is_in_the_address(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#headView=table&sort=entropy&down=yes")
    first = page.locator("[data-panel=heads] tbody tr").first.locator("th")
    assert first.inner_text() == by_entropy(cat, -1)[0]
    page.get_by_role("button", name="entropy").click()
    page.until("() => location.hash.includes('sort=entropy') && !location.hash.includes('down=yes')")
    assert first.inner_text() == by_entropy(cat, 1)[0]


def test_the_page_of_a_long_text_is_in_the_address_and_follows_the_pin(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    run = made.make_run(tmp_path / "long", made.on(900, 0)[None, None], statistics=["entropy"])
    page = open_page(f"{serve(run)}#page=1")
    pages = page.locator(".pages span")
    assert pages.inner_text() == "tokens 400–799 of 900"
    page.get_by_role("button", name="Later").click()
    page.until("() => location.hash.includes('page=2')")
    page.settled()
    assert pages.inner_text() == "tokens 800–899 of 900"
    page.go("query=450")
    page.wait_for_selector('.token.own[data-token="450"]')
    assert pages.inner_text() == "tokens 400–799 of 900"


def test_what_the_mask_hides_is_not_shown_as_no_weight(
    open_page: Callable[..., Page], serve: Callable[..., str], made: Any, tmp_path: Any
) -> None:
    n = 8
    run = made.make_run(tmp_path / "causal", made.uniform(n)[None, None], causal=True)
    page = open_page(serve(run))
    page.wait_for_selector(".status[data-exact=true][data-busy=false]")
    assert page.locator("[data-panel=map] .veil").inner_text() == "hidden by the mask"
    box = page.locator(".matrix canvas").bounding_box()

    def over(query: int, key: int) -> str:
        page.mouse.move(box["x"] + box["width"] * (key + 0.5) / n, box["y"] + box["height"] * (query + 0.5) / n)
        page.wait_for_selector(f".readout[aria-busy=false] >> text=token{query} → token{key}")
        return page.locator(".readout").inner_text()

    assert "hidden by the mask" in over(2, 5)
    assert "weight" not in over(2, 5)
    assert "hidden" not in over(5, 2)


def test_a_run_whose_mask_hides_nothing_says_nothing_of_it(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(f"{url}#head=self.5.11")
    page.wait_for_selector(".status[data-exact=true][data-busy=false]")
    assert page.locator(".veil").count() == 0


def test_two_heads_are_told_at_the_same_cell(open_page: Callable[..., Page], url: str, cat: Run) -> None:
    page = open_page(f"{url}#head=self.5.11&centre=compare&otherHead=self.0.2&query=8&key=2")
    page.wait_for_selector(".readout[aria-busy=false] >> text=difference")
    one, other = (cat.weights(layer, head, 8, 2)[0, 0] for layer, head in ((5, 11), (0, 2)))
    told = page.locator(".compare .readout").inner_text()
    assert f"{one:.3f}" in told
    assert f"{one - other:.3f}" in told
