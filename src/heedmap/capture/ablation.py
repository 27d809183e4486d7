"""`ablate`: inside it, chosen attention heads of a Hugging Face model write nothing; outside, it is as before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from heedmap.capture.selection import Selection
from heedmap.capture.session import Place, Session
from heedmap.capture.watch import opened, unwrap
from heedmap.errors import InputError, UnsupportedError


class Ablation:
    """Which heads are zeroed: `heads` as in `watch`, of one `part`; None for the only part that has such layers."""

    def __init__(self, heads: Selection, part: str | None) -> None:
        self._heads = heads
        self._part = part
        self._parts: set[str] = set()
        self._zeroed: dict[int, list[list[int]]] = {}  # module → heads zeroed in each of its calls so far, no two alike

    def without(self, output: Tensor, module: nn.Module, place: Place) -> Tensor:
        """The output `[batch, query_len, heads, value_dim]` of one call, those heads' slices zero."""
        heads = self._of(place, output.shape[2])
        called = self._zeroed.setdefault(id(module), [])
        if heads not in called:
            called.append(heads)
        return _zeroed(output, heads)

    def again(self, output: Tensor, module: nn.Module) -> Tensor:
        """The same for a call that gradient checkpointing repeats.

        Raises:
            UnsupportedError: a module that runs once for each layer (ALBERT), of which it cannot be told which.
        """
        called = self._zeroed.get(id(module), [[]])
        if len(called) > 1:
            raise UnsupportedError(
                "ablate",
                expected="a module for each layer, where gradients are checkpointed",
                got=f"{type(module).__name__}, which runs for several layers",
                do="train without gradient checkpointing",
            )
        return _zeroed(output, called[0])

    def _of(self, place: Place, count: int) -> list[int]:
        if self._part not in (None, place.part):
            return []
        heads = self._heads.of_layer(place.layer, count)
        if heads is None:
            return []
        self._parts.add(place.part)
        if len(self._parts) > 1:
            raise InputError(
                "ablate",
                expected=f"one part of the model ({', '.join(sorted(self._parts))} have such a layer)",
                got="none named",
                do=f'say which: ablate(model, heads, part="{min(self._parts)}")',
            )
        return heads

    def check(self) -> None:
        """Raise where the part that was named never ran."""
        if self._part is not None and not self._parts:
            raise InputError("ablate", expected=f"a part {self._part!r} with such a layer to run", got="none")


@contextmanager
def ablate(
    model: nn.Module,
    heads: Iterable[int | str | tuple[int, int]] | int,
    *,
    part: str | None = None,
) -> Iterator[None]:
    """Zero what attention heads write, for as long as the `with` block runs.

        with ablate(model, ["18.6", (17, 3)]), watch(model) as seen:
            model(**inputs)

    A head's output, its slice of what the output projection reads, is replaced by zeros: the same as zeroing that
    head's columns of the projection. No weight is touched, and on leaving, also after an exception, the model is as it
    was, bit for bit. It nests with `watch` in either order: the head's own attention is still measured, what later
    layers make of its silence too. Gradients flow through the other heads.

    Args:
        model: a transformers model, or a module around one, as in `watch`.
        heads: `"layer.head"` or `(layer, head)`; a number alone is that head of every layer.
        part: where the model has several stacks of layers (`encoder`, `decoder`, `cross` …), which one.

    Raises:
        InputError: no such layer, head or part, or several parts that have it and none named.
        UnsupportedError: the model attends by its own code.

    Source: Michel et al. 2019, §2 (masking heads); Olsson et al. 2022 (ablation of induction heads).
    """
    selection = Selection.of(None, heads)
    session = Session(unwrap(model), selection, (), False, lambda call: None)
    session.ablation = Ablation(selection, part)
    with opened(session):
        yield
    session.ablation.check()


def _zeroed(output: Tensor, heads: list[int]) -> Tensor:
    if not heads:
        return output
    silent = torch.zeros(output.shape[2], 1, dtype=torch.bool, device=output.device)
    silent[heads] = True
    return output.masked_fill(silent, 0)
