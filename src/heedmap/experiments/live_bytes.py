"""How much memory a computation would hold at its peak, counted on tensors without memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MAPPED = 32 * 2**20
"""Bytes from which glibc gives an allocation pages of its own (M_MMAP_THRESHOLD's ceiling on 64 bits)."""
_QUESTIONS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)


class LiveBytes(TorchDispatchMode):
    """Inside it, every tensor that an operation makes is counted from its birth until nothing refers to it.

    On the meta device nothing is computed and nothing is allocated, so that a model of any size and a text of any
    length can be counted; a question after a value (`.item()`, `if mask.all()`) gets True, or 0. Views share storage
    and count once. What a single operation holds within itself is not seen.

    A process holds more than its tensors: memory of smaller allocations stays with it when they are freed, until it is
    given back, and only those of `MAPPED` bytes and more go at once. So large tensors come on top of the most that
    small ones ever took; `held` and `held_peak` follow that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self.held_peak = 0
        self._small = 0
        self._most_small = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _QUESTIONS and args[0].is_meta:  # asked for a value that is not there: yes, or 0
            return args[0].dtype == torch.bool
        for tensor in _tensors((args, kwargs or {})):
            self._note_known(tensor.untyped_storage(), 0)  # there before: an operation on it makes nothing new
        made = func(*args, **(kwargs or {}))
        for tensor in _tensors(made):
            self._count(tensor)
        return made

    def _count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if id(storage) not in self._known:
            self._add(storage.nbytes())
            self._note_known(storage, storage.nbytes())

    @property
    def held(self) -> int:
        """What the process holds for its tensors now."""
        return self._most_small + self.now - self._small

    def passing(self, size: int) -> None:
        """Something of many small allocations and this size in all comes and goes."""
        self._add(size, small=True)
        self._add(-size, small=True)

    def give_back(self) -> None:
        """Memory of what is freed goes back to the system, as by `heedmap.capture.freed`."""
        self._most_small = self._small

    def _add(self, size: int, *, small: bool | None = None) -> None:
        self.now += size
        if abs(size) < MAPPED if small is None else small:
            self._small += size
            self._most_small = max(self._most_small, self._small)
        self.peak = max(self.peak, self.now)
        self.held_peak = max(self.held_peak, self.held)

    def _note_known(self, storage: torch.UntypedStorage, size: int) -> None:
        if id(storage) not in self._known:
            self._known.add(id(storage))
            weakref.finalize(storage, self._forget, id(storage), size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._add(-size)


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _tensors(entry)
