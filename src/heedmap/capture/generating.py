"""Follows a model's own `generate()` from outside: which texts it reads, and which it returns."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from heedmap.errors import UnsupportedError


class Listener(Protocol):
    """Who wants to know what a model generates."""

    def begin(self, inputs: int) -> None: ...
    def told(self, ids: Tensor) -> None: ...
    def end(self, sequences: Tensor, lengths: Callable[[int], list[int]]) -> None: ...
    def drop(self) -> None: ...


class Generating:
    """The methods of models that are replaced while somebody listens, by whom, and what they were."""

    def __init__(self) -> None:
        self._models: dict[int, tuple[nn.Module, list[Listener], dict[str, Any]]] = {}

    def listen(self, model: nn.Module, listener: Listener) -> None:
        """Tell a listener of every `generate()` of this model."""
        if id(model) not in self._models:
            listeners: list[Listener] = []
            own = {name: model.__dict__[name] for name in _METHODS if name in model.__dict__}
            self._models[id(model)] = (model, listeners, own)
            model.__dict__.update(zip(_METHODS, (_generate(model, listeners), _prepare(model, listeners)), strict=True))
        self._models[id(model)][1].append(listener)

    def leave(self, model: nn.Module, listener: Listener) -> None:
        """Tell it no more; with the last one the model has its own methods back."""
        _, listeners, own = self._models[id(model)]
        listeners.remove(listener)
        if not listeners:
            del self._models[id(model)]
            for name in _METHODS:
                model.__dict__.pop(name, None)
            model.__dict__.update(own)


GENERATING = Generating()
_METHODS = ("generate", "prepare_inputs_for_generation")
_STOPS = ("stopping_criteria", "stop_strings")  # what ends some texts of a batch before others, beside an end token
_STOPS_AT = 3  # the place of stopping_criteria among the arguments of generate()


def _generate(model: Any, listeners: list[Listener]) -> Any:
    original, busy = model.generate, False

    @functools.wraps(original)
    def generate(*args: Any, **kwargs: Any) -> Any:
        nonlocal busy
        if busy:
            raise UnsupportedError(
                "watch",
                expected="one generate() at a time",
                got="a draft by the watched model itself (assistant_early_exit)",
                do="generate without it, or watch the model with passes='apart'",
            )
        _keep_from_compiling(args, kwargs)
        present = list(listeners)
        busy = True
        try:
            for listener in present:
                listener.begin(_inputs(model, args, kwargs))
            result = original(*args, **kwargs)
            sequences = result if isinstance(result, Tensor) else result["sequences"]
            for listener in present:
                listener.end(sequences, _lengths(model, sequences, args, kwargs))
            return result
        finally:
            busy = False
            for listener in present:
                listener.drop()

    return generate


def _keep_from_compiling(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compiled code, which a static cache brings on a GPU, would not call us."""
    if kwargs.get("generation_config") is not None:
        kwargs["generation_config"] = copy.deepcopy(kwargs["generation_config"])
        kwargs["generation_config"].disable_compile = True
    elif len(args) < 2:  # the second argument is the configuration too
        kwargs.setdefault("disable_compile", True)


def _prepare(model: Any, listeners: list[Listener]) -> Any:
    original = model.prepare_inputs_for_generation

    @functools.wraps(original)
    def prepare(input_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        for listener in listeners:
            listener.told(input_ids)
        return original(input_ids, *args, **kwargs)

    return prepare


def _inputs(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How many inputs `generate()` is given: texts, images to describe, recordings."""
    named = (kwargs.get(name) for name in ("inputs", model.main_input_name, "input_ids", "inputs_embeds"))
    first = next((given for given in (*args[:1], *named) if isinstance(given, Tensor)), None)
    return 1 if first is None else first.shape[0]


def _lengths(
    model: Any, sequences: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[int], list[int]]:
    """How many tokens of each returned text are its own: up to its first end token behind the prompt."""
    config = kwargs.get("generation_config") or model.generation_config
    ends = kwargs.get("eos_token_id", config.eos_token_id)
    padding = kwargs.get("pad_token_id", config.pad_token_id)
    stopped = any(kwargs.get(name) or getattr(config, name, None) for name in _STOPS) or len(args) > _STOPS_AT
    ids = [] if ends is None else torch.as_tensor(ends).reshape(-1).tolist()

    def lengths(prompt: int) -> list[int]:
        found: list[int] = []
        for text in sequences.tolist():
            length = next((at + 1 for at in range(prompt, len(text)) if text[at] in ids), len(text))
            if stopped and length == len(text) and len(sequences) > 1:  # may have ended by it, and been padded since
                while length > prompt + 1 and text[length - 1] == padding:
                    length -= 1
            found.append(length)
        return found

    return lengths


@contextmanager
def listening(model: nn.Module, listener: Listener | None) -> Iterator[None]:
    """Listen to every model in a module that generates, for as long as the block runs."""
    models: list[nn.Module] = []
    try:
        for module in model.modules() if listener is not None else ():
            if all(callable(getattr(module, name, None)) for name in _METHODS):
                assert listener is not None
                GENERATING.listen(module, listener)
                models.append(module)
        yield
    finally:
        for module in models:
            assert listener is not None
            GENERATING.leave(module, listener)
