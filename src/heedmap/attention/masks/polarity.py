"""What the numbers of a mask tensor say; the one place where polarity is decided."""

from __future__ import annotations

import torch
from torch import Tensor

from heedmap.errors import InputError


def read_mask(where: str, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """`(allowed, bias)` of a mask tensor: booleans and integers 0/1 hide where False, floats are added.

    −∞ and the lowest finite number of the dtype hide. A float mask of only 0 and 1 (with a 1) is refused,
    since it is written by people who mean "may attend" as well as by people who mean a bias.
    """
    if mask.dtype == torch.bool:
        return mask, None
    if not mask.is_floating_point():
        if mask.is_complex() or bool(((mask != 0) & (mask != 1)).any()):
            raise InputError(where, expected="an integer mask of 0 and 1", got=f"other values in {mask.dtype}")
        return mask != 0, None
    if bool(torch.isnan(mask).any()) or bool(torch.isposinf(mask).any()):
        raise InputError(where, expected="additive values below infinity", got="NaN or +inf in the mask")
    ones = mask == 1
    if bool(ones.any()) and bool((ones | (mask == 0)).all()):
        raise InputError(
            where,
            expected="a mask that is clearly boolean or clearly additive",
            got="a float mask of only 0 and 1",
            do="write mask.bool() if 1 means may attend, or mask - 1 if it is to be added (softmax ignores a constant)",
        )
    hidden = mask <= torch.finfo(mask.dtype).min
    bias = mask.masked_fill(hidden, 0)
    return ~hidden, (bias if bool((bias != 0).any()) else None)
