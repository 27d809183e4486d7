"""Where attention stands in a model: its modules and what to call their layers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType

from torch import nn
from transformers import PreTrainedModel

INTERFACE = "ALL_ATTENTION_FUNCTIONS"
"""The name under which a modeling file of transformers knows the attention interface."""
SEEN_OR_HEARD = ("vision", "image", "audio")
"""Stacks of layers that read no text."""


def uses_interface(kind: type) -> bool:
    """Whether a module class calls attention through transformers' interface."""
    return any(INTERFACE in function.__code__.co_names for function in methods(kind))


def methods(kind: type) -> Iterator[FunctionType]:
    """The functions of a class and its own bases, without their decorators."""
    for base in kind.__mro__:
        if base in PreTrainedModel.__mro__:
            continue
        for value in vars(base).values():
            function = inspect.unwrap(value) if callable(value) else value
            if isinstance(function, FunctionType):
                yield function


@dataclass(frozen=True)
class Site:
    """One attention module of a model: its name, the stack of layers that it stands in, its number there."""

    name: str
    stack: str
    number: int
    certain: bool
    """The module itself knows its number; otherwise it comes from the name."""


def sites_of(model: nn.Module) -> dict[int, Site]:
    """The attention modules of a model that use the interface, by `id(module)`, in the order of the model."""
    found = [(name, module) for name, module in model.named_modules() if uses_interface(type(module))]
    prefixes = {name: _prefix(name) for name, _ in found}
    labels = _labels(sorted(set(prefixes.values())))
    sites = {}
    for name, module in found:
        index = getattr(module, "layer_idx", None)
        certain = isinstance(index, int)
        number = index if isinstance(index, int) else _first_integer(name)
        sites[id(module)] = Site(name, labels[prefixes[name]], number, certain)
    return sites


def _prefix(name: str) -> str:
    parts = name.split(".")
    end = next((place for place, part in enumerate(parts) if part.isdigit()), len(parts) - 1)
    return ".".join(parts[:end])


def _first_integer(name: str) -> int:
    return next((int(part) for part in name.split(".") if part.isdigit()), 0)


def _labels(prefixes: list[str]) -> dict[str, str]:
    """A short name for each stack of layers: `self` for the only one, else what tells them apart."""
    if len(prefixes) <= 1:
        return dict.fromkeys(prefixes, "self")
    paths = {prefix: prefix.split(".") for prefix in prefixes}
    shared = 0
    while (
        all(len(path) > shared + 1 for path in paths.values()) and len({path[shared] for path in paths.values()}) == 1
    ):
        shared += 1
    labels = {prefix: _short(path[shared]) for prefix, path in paths.items()}
    if len(set(labels.values())) < len(labels):
        labels = {prefix: _short(".".join(path[shared:])) for prefix, path in paths.items()}
    return labels


def _short(name: str) -> str:
    name = re.sub(r"_(model|tower|transformer)\b", "", name)
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name) or "self"


def decodes(part: str) -> bool:
    """Whether the queries of a part of an encoder–decoder are those of the text that is decoded."""
    return "decoder" in part.split(".") or "cross" in part.split(".")


class Numbers:
    """Gives each call its part and layer, once and for all: `(self, 3)`, `(cross, 0)`, `(encoder, 5)`.

    A model's own numbers stay (in a hybrid layer 3 stays layer 3). A module that runs once for each layer (ALBERT)
    counts on; a module that attends several times in one run (DiffLlama, one image after another) has parts
    `self`, `self.2`, ….
    """

    def __init__(self, sites: dict[int, Site]) -> None:
        self._sites = sites
        self._given: dict[tuple[str, str, int], int] = {}
        self._taken: dict[str, set[int]] = {}

    def of(self, module: nn.Module, *, cross: bool, run: int, call: int) -> tuple[str, int]:
        """Part and layer of a call: the module's `run`-th run within a pass, and its `call`-th call within that."""
        site = self._sites[id(module)]
        part = _cross_part(site.stack) if cross else site.stack
        if call:
            part = f"{part}.{call + 1}"
        who = (part, site.name, run)
        if who not in self._given:
            taken = self._taken.setdefault(part, set())
            number = site.number + run
            if number in taken:
                number = max(taken) + 1
            taken.add(number)
            self._given[who] = number
        return part, self._given[who]


def _cross_part(stack: str) -> str:
    return "cross" if stack in ("self", "decoder") else f"{stack}.cross"
