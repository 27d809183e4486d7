"""Keys packed by the extension, for tables of any layout; what does not fit is refused before anything is written."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

native = pytest.importorskip("heedmap._native", reason="heedmap installed without its compiled part")


def packed(rows: Tensor, panel: int) -> Tensor:
    """The same by torch."""
    heads, count, dim = rows.shape
    panels = -(-count // panel)
    return nn.functional.pad(rows, (0, 0, 0, -count % panel)).reshape(heads, panels, panel, dim).transpose(2, 3)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("panel", [1, 7, 16, 32])
@pytest.mark.parametrize(
    "rows",
    [
        torch.randn(1, 1, 1),
        torch.randn(3, 31, 5),
        torch.randn(2, 64, 33),
        torch.randn(40, 2, 96, 64).transpose(0, 1)[:, :, 5:70].flatten(0, 1),
        torch.randn(5, 4, 33)[1:, :, 1:],
        torch.randn(1, 20, 3).expand(4, 20, 3),
        torch.randn(2, 1, 3).expand(2, 9, 3),
        torch.randn(2, 0, 3),
        torch.randn(0, 4, 3),
    ],
    ids=lambda rows: "x".join(map(str, rows.shape)),
)
def test_rows_stand_side_by_side_with_zeros_behind(rows: Tensor, panel: int, threads: int) -> None:
    expected = packed(rows, panel)
    found = torch.full(expected.shape, torch.nan)
    native.pack_rows(rows=rows, packed=found, threads=threads)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("rows", "room"),
    [
        (torch.zeros(2, 9, 3), torch.zeros(2, 2, 3, 4)),
        (torch.zeros(2, 9, 3), torch.zeros(1, 3, 3, 4)),
        (torch.zeros(2, 9, 3), torch.zeros(2, 3, 2, 4)),
        (torch.zeros(2, 9, 3), torch.zeros(2, 3, 4, 3).transpose(2, 3)),
        (torch.zeros(2, 9, 3), torch.zeros(2, 9, 3, 0)),
        (torch.zeros(2, 3, 9).transpose(1, 2), torch.zeros(2, 3, 3, 4)),
    ],
)
def test_what_does_not_fit_is_refused(rows: Tensor, room: Tensor) -> None:
    with pytest.raises(ValueError, match=r"\[strip pass\] expected "):
        native.pack_rows(rows=rows, packed=room, threads=1)
    assert not room.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32])
def test_other_numbers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError):
        native.pack_rows(rows=torch.zeros(1, 2, 3, dtype=dtype), packed=torch.zeros(1, 1, 3, 4), threads=1)
