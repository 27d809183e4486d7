"""How many steps part two tokens: in self-attention, in a recurrence, in a stack of convolutions. Asked of autograd."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from heedmap.attention.modules import SelfAttention
from heedmap.errors import InputError

WIDTH = 8


def attention_layers(n: int) -> int:
    """Layers of self-attention until the last of n tokens depends on the first."""
    layers = [SelfAttention(WIDTH, WIDTH, WIDTH) for _ in range(n)]

    def apply(x: Tensor, count: int) -> Tensor:
        for layer in layers[:count]:
            x = layer(x)[0]
        return x

    return _least(n, apply)


def convolution_layers(n: int, width: int) -> int:
    """Layers of a causal convolution over `width` tokens until the last of n tokens depends on the first.

    Raises:
        InputError: a width below 2, which never reaches another token.
    """
    if width < 2:
        raise InputError("path_length", expected="a convolution over 2 or more tokens", got=f"{width}")
    kernel = torch.nn.Conv1d(WIDTH, WIDTH, width)

    def apply(x: Tensor, count: int) -> Tensor:
        for _ in range(count):
            x = kernel(torch.nn.functional.pad(x.T, (width - 1, 0))).T
        return x

    return _least(n, apply)


def recurrence_steps(n: int) -> int:
    """Steps of a recurrence h = tanh(Wx + Uh) that lie between the first token and the last of n."""
    first = torch.randn(WIDTH, requires_grad=True)
    inner, outer = (torch.randn(WIDTH, WIDTH) for _ in range(2))
    hidden = torch.tanh(inner @ first)
    for _ in range(n - 1):
        hidden = torch.tanh(inner @ torch.randn(WIDTH) + outer @ hidden)
    steps, node = 0, hidden.grad_fn
    while node is not None:
        steps += "Tanh" in type(node).__name__
        node = next((before for before, _ in node.next_functions if before is not None), None)
    return steps - 1


def _least(n: int, apply: Callable[[Tensor, int], Tensor]) -> int:
    """The least number of layers through which a gradient from the last token reaches the first."""
    torch.manual_seed(0)
    for count in range(1, n + 1):
        x = torch.randn(n, WIDTH, requires_grad=True)
        apply(x, count)[-1].sum().backward()
        assert x.grad is not None
        if bool((x.grad[0] != 0).any()):
            return count
    return n
