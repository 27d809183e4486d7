"""What torch.compile is to leave alone: a sweep calls C++ and asks tensors for their numbers, which no graph holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, called as it is from compiled code, whose graph breaks around it."""

    @cache
    def left_alone() -> Callable[P, R]:
        disable: Any = torch.compiler.disable
        return disable(function)

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        # disabling imports torch._dynamo, which takes a second: whoever compiles has imported it
        chosen = left_alone() if "torch._dynamo" in sys.modules else function
        return chosen(*args, **keywords)

    return call
