"""Steps between two tokens, asked of autograd."""

from __future__ import annotations

import math

import pytest

from heedmap.errors import InputError
from heedmap.experiments.path_length import attention_layers, convolution_layers, recurrence_steps


@pytest.mark.parametrize("n", [2, 12, 40])
def test_attention_needs_one_layer_whatever_the_length(n: int) -> None:
    assert attention_layers(n) == 1


@pytest.mark.parametrize("n", [2, 12, 40])
def test_a_recurrence_needs_a_step_for_each_token_between(n: int) -> None:
    assert recurrence_steps(n) == n - 1


@pytest.mark.parametrize(("n", "width"), [(2, 3), (12, 3), (40, 5), (13, 2)])
def test_a_convolution_reaches_width_minus_one_further_with_each_layer(n: int, width: int) -> None:
    assert convolution_layers(n, width) == math.ceil((n - 1) / (width - 1))


def test_a_convolution_over_one_token_reaches_nothing() -> None:
    with pytest.raises(InputError):
        convolution_layers(5, 1)
