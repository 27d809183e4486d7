"""The extension's way back refuses what does not fit, before it writes anything."""

from __future__ import annotations

import pytest
import torch

native = pytest.importorskip("heedmap._native", reason="heedmap installed without its compiled part")
SETS = [name for name in native.instruction_sets() if native.panel(name) > 0]
HEADS, KEY_HEADS, ROWS, KEYS, DIM = 4, 2, 3, 10, 5


def keys_of(panel: int, **changed: object) -> dict[str, object]:
    given = {
        "query_heads": HEADS,
        "packed_keys": torch.zeros(KEY_HEADS, 1, DIM, panel),
        "packed_values": torch.zeros(KEY_HEADS, 1, DIM, panel),
        "key_rows": torch.zeros(KEY_HEADS, panel, panel),
        "of_key": torch.zeros(KEY_HEADS, panel, panel),
        "of_value": torch.zeros(KEY_HEADS, panel, panel),
        "softcap": 0.0,
    }
    return given | changed


def strip_of(panel: int, **changed: object) -> dict[str, object]:
    given = {
        "head_start": 0,
        "keys": (0, KEYS),
        "query": torch.zeros(HEADS, ROWS, panel),
        "flowing": torch.ones(HEADS, ROWS, panel),
        "top_score": torch.zeros(HEADS, ROWS),
        "scale": torch.ones(HEADS, ROWS),
        "spread": torch.zeros(HEADS, ROWS),
        "allowed": [],
        "of_query": torch.zeros(HEADS, ROWS, panel),
        "threads": 1,
    }
    return given | changed


@pytest.mark.parametrize("name", SETS)
def test_what_fits_is_taken(name: str) -> None:
    panel = native.panel(name)
    keys = keys_of(panel)
    native.Backward(**keys, instruction_set=name).strip(**strip_of(panel))
    of_value = keys["of_value"]
    assert isinstance(of_value, torch.Tensor)
    assert bool((of_value[:, :KEYS] == HEADS / KEY_HEADS * ROWS).all())  # every weight is exp(0)
    assert bool((of_value[:, KEYS:] == 0).all())


@pytest.mark.parametrize(
    "changed",
    [
        {"query_heads": 3},
        {"softcap": -1.0},
        {"packed_keys": torch.zeros(KEY_HEADS, 1, DIM, 7)},
        {"packed_values": torch.zeros(KEY_HEADS, 2, DIM, 32)},
        {"packed_keys": torch.zeros(KEY_HEADS, 1, 32, DIM).transpose(2, 3)},
        {"key_rows": torch.zeros(KEY_HEADS, 32, 31)},
        {"of_key": torch.zeros(KEY_HEADS, KEYS, 32)},
        {"of_value": torch.zeros(KEY_HEADS, 32, 64)[..., :32]},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("name", SETS)
def test_keys_that_do_not_fit_are_refused(name: str, changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\[strip pass\] expected "):
        native.Backward(**keys_of(native.panel(name), **changed), instruction_set=name)


@pytest.mark.parametrize(
    "changed",
    [
        {"head_start": 1},
        {"head_start": -1},
        {"keys": (0, 1000)},
        {"keys": (-1, 5)},
        {"keys": (6, 5)},
        {"query": torch.zeros(HEADS, ROWS, DIM)},
        {"flowing": torch.zeros(HEADS, ROWS + 1, 32)},
        {"scale": torch.zeros(HEADS, ROWS + 1)},
        {"spread": torch.zeros(ROWS, HEADS).T},
        {"allowed": [(5, torch.ones(1, ROWS, 6, dtype=torch.bool))]},
        {"allowed": [(0, torch.ones(2, ROWS, 6, dtype=torch.bool))]},
        {"of_query": torch.zeros(HEADS, ROWS, 64)},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("name", SETS)
def test_a_strip_that_does_not_fit_is_refused(name: str, changed: dict[str, object]) -> None:
    panel = native.panel(name)
    keys = keys_of(panel)
    backward = native.Backward(**keys, instruction_set=name)
    with pytest.raises(ValueError, match=r"\[strip pass\] expected "):
        backward.strip(**strip_of(panel, **changed))
    assert not any(bool(table.any()) for table in (keys["of_key"], keys["of_value"]) if isinstance(table, torch.Tensor))


def test_an_instruction_set_without_products_is_refused() -> None:
    with pytest.raises(ValueError, match="instruction set with products"):
        native.Backward(**keys_of(16), instruction_set="scalar")
