"""What single arguments are held to: whole numbers, positive numbers, tensors; a misfit is one clear InputError."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from heedmap.errors import InputError

_LARGEST = 2**53  # positions are counted in int64, and described in JSON


def whole(
    where: str,
    name: str,
    value: Any,
    *,
    least: int | None = None,
    largest: float = _LARGEST,
    do: str | None = None,
) -> int:
    """A whole number, NumPy's and tensors of one number included, of `least` or more."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is None or abs(number) > largest or (least is not None and number < least):
        of = "a whole number" if least is None else f"{least} or more"
        raise InputError(
            where, expected=f"{name} of {of}" if least is not None else f"{of} as {name}", got=_said(value), do=do
        )
    return number


def positive(where: str, name: str, value: Any) -> float:
    """A positive, finite number."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or number <= 0:
        raise InputError(where, expected=f"a positive {name}, as a number", got=_said(value))
    return number


def tensor(where: str, name: str, values: Any, device: torch.device | None = None) -> Tensor:
    """Numbers as a dense tensor: a tensor, an array or (nested) lists."""
    try:
        table = torch.as_tensor(values, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            where, expected=f"{name} as a tensor, an array or lists of numbers", got=_said(values)
        ) from None
    dense(where, name, table)
    return table


def dense(where: str, name: str, table: Tensor) -> None:
    """Refuse tensors that hold no number for each place: sparse ones, and those without data."""
    if table.layout != torch.strided or table.device.type == "meta":
        kind = "one without data" if table.device.type == "meta" else f"{table.layout}"
        raise InputError(where, expected=f"{name} as a dense tensor", got=kind)


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
