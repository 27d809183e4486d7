"""One `watch`: what it measures, what it has seen of the current forward pass, and how the model was before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.formula import Formula
from heedmap.capture.freed import give_back
from heedmap.capture.generation import Generation
from heedmap.capture.known import Generated, Known
from heedmap.capture.layers import SEEN_OR_HEARD, Numbers, Site, sites_of
from heedmap.capture.lazy_mask import LazyMask
from heedmap.capture.selection import Selection
from heedmap.errors import HeedmapError, InputError, UnsupportedError
from heedmap.measurements import Measurements
from heedmap.statistics.catalogue import asked_names, lacking, needs_value

if TYPE_CHECKING:
    from heedmap.capture.ablation import Ablation

NAME = "heedmap"
"""Our name in transformers' attention and mask interfaces; names with `flash`, `sdpa` or `/` change what models do."""

_ELSEWHERE = ("key_value_states", "encoder_hidden_states", "cross_attention_states", "context", "vision_hidden_states")
_KEYS = {"key": "query", "keys": "queries"}
_CACHES = ("cache", "past_key_values", "past_key_value", "layer_past")


@dataclass(frozen=True)
class Call:
    """One attention call of one module.

    Attributes:
        module: the module's name in the model.
        layer, part: where it stands; a part is one stack of layers (`self` where there is only one; `encoder`,
            `decoder`, `cross`, `text`, `vision` …).
        measurements: statistics, one row of the head axis for each of `heads`.
        formula: scale, softcap, sinks, masks and positions, as plain data.
        inputs: query and key of all heads, where inputs are kept.
        heads: the query heads that were measured, counted from 0.
        forward: which forward pass inside `watch` this call belongs to, counted from 0; of a `generate()` the first.
        token_ids: of a `generate()` the texts that it returned, int64 `[batch, tokens]`: one token more than rows, for
            the last token has read nothing yet. Otherwise None.
    """

    module: str
    layer: int
    part: str
    measurements: Measurements
    formula: Formula
    inputs: AttentionInputs | None
    heads: list[int]
    forward: int = 0
    token_ids: Tensor | None = None


@dataclass(frozen=True)
class Place:
    """Where one call stands, and whether it attends to another text than its own."""

    site: Site
    part: str
    layer: int
    cross: bool
    forward: int
    cached: bool


Teller = Callable[[Place, Generated | None], Known | None]
"""Tells what is known of the keys of one place."""


class Session:
    """The state of one `watch`; `heedmap.capture.interface` reports every attention call to it."""

    def __init__(
        self,
        model: nn.Module,
        selection: Selection,
        statistics: Any,
        keep_inputs: bool,
        sink: Callable[[Call], None],
        compute: Callable[[Any, Session, Place], Tensor] | None = None,
        known: Known | Teller | None = None,
    ) -> None:
        self.model = model
        self.selection = selection
        self.statistics: str | tuple[str, ...] = (
            statistics if isinstance(statistics, str) else tuple(asked_names(statistics))
        )
        self.keep_inputs = keep_inputs
        self.compute = compute
        """Computes the output of every call in place of measuring; for the self-check."""
        self.known = known
        """Facts about the tokens of the text that runs through the model, or what tells them for one place."""
        self.generation: Generation | None = None
        """The `generate()` that is running, where its passes are joined."""
        self.spoiled: Callable[[Place, int], None] | None = None
        """Told of a call that cannot be measured and of the head that holds NaN or infinity; None raises."""
        self.ablation: Ablation | None = None
        """Heads whose output is zeroed; such a session measures nothing."""
        self.needs_value = needs_value(self.statistics)
        self.keeps_value = keep_inputs or self.needs_value
        self._sink = sink
        self.sites = sites_of(model)
        if not self.sites:
            raise unwatchable(model, "has no attention that goes through transformers' interface")
        selection.check(self._possible_layers())
        self._told: dict[str, HeedmapError | None] = {}  # statistics by name, and why no call so far could tell them
        self.calls = 0
        self.pairs = 0
        """Weights of all heads of all calls: what a model that returns them would hold at once."""
        self.layers_seen: set[int] = set()
        self._rows: tuple[int, int, Tensor | None] | None = None  # of the last call that attended to its own text
        self._numbers = Numbers(self.sites)
        self._hooks: list[Any] = []
        self._depth = 0
        self._forward = -1
        self._longest = 0  # keys of a call in the current pass
        self._runs: dict[int, int] = {}
        self._within: dict[int, int] = {}
        self._elsewhere: dict[int, bool] = {}
        self._cached: dict[int, bool] = {}
        self._paddings: list[Tensor | None] = []  # 2-D masks of the models at work, the innermost last

    def _possible_layers(self) -> set[int]:
        numbers = {site.number for site in self.sites.values()}
        if all(site.certain for site in self.sites.values()):
            return numbers
        counted = getattr(getattr(self.model, "config", None), "num_hidden_layers", 0)
        return numbers | set(range(max(len(self.sites), counted if isinstance(counted, int) else 0)))

    # --- following forward passes -----------------------------------------------------------------------------

    def follow(self) -> None:
        """Watch forward passes begin and end, and attention modules being run."""
        for module in self.model.modules():
            if isinstance(module, PreTrainedModel) or module is self.model:
                names = list(inspect.signature(type(module).forward).parameters)[1:]
                self._hooks.append(module.register_forward_pre_hook(_Begins(self, names), with_kwargs=True))
                self._hooks.append(module.register_forward_hook(self._end, always_call=True))
            if id(module) in self.sites:
                names = list(inspect.signature(type(module).forward).parameters)[1:]
                self._hooks.append(module.register_forward_pre_hook(_Runs(self, names), with_kwargs=True))

    def unfollow(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def begin(self, padding: Any) -> None:
        """A model, or one inside it, begins to run with this attention mask."""
        if in_backward():
            return
        if self._depth == 0:
            self._new_pass()
            self._paddings.clear()
        self._depth += 1
        self._paddings.append(padding if isinstance(padding, Tensor) and padding.dim() == 2 else None)

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        if not in_backward():
            self._depth = max(0, self._depth - 1)
            if self._paddings:
                self._paddings.pop()
            if self._depth == 0:
                give_back(self._longest)

    def _new_pass(self) -> None:
        self._forward += 1
        self._runs.clear()
        self._rows = None
        self._longest = 0

    def run(self, module: nn.Module, given: dict[str, Any]) -> None:
        """An attention module begins to run with these arguments."""
        if in_backward():
            return
        if self._depth == 0:  # the module is called by itself
            self._new_pass()
        self._runs[id(module)] = self._runs.get(id(module), 0) + 1
        self._within[id(module)] = 0
        self._elsewhere[id(module)] = _looks_elsewhere(module, given)
        self._cached[id(module)] = any(given.get(name) is not None for name in _CACHES)

    def place(self, module: nn.Module, query: Tensor, key: Tensor) -> Place:
        """Count a call and say where it stands."""
        self.calls += 1
        self.pairs += query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        self._longest = max(self._longest, key.shape[2])
        run, call = max(0, self._runs.get(id(module), 0) - 1), self._within.get(id(module), 0)
        self._within[id(module)] = call + 1
        cross = self._elsewhere.get(id(module), False)
        part, layer = self._numbers.of(module, cross=cross, run=run, call=call)
        cached = self._cached.get(id(module), False)
        return Place(self.sites[id(module)], part, layer, cross, max(0, self._forward), cached)

    def note_rows(self, place: Place, mask: Any, batch: int, length: int, keys: int) -> None:
        """Remember which rows of a text are padding: only its attention to itself is told."""
        if not place.cross:
            real = mask.real_queries() if isinstance(mask, LazyMask) else self.given_rows(place, batch, length, keys)
            self._rows = (batch, length, real)

    def given_rows(self, place: Place, batch: int, length: int, keys: int) -> Tensor | None:
        """Which rows are no padding where the mask does not say: by the 2-D mask that the innermost model was given,
        if that is one of these keys and they are a text's."""
        given = self._paddings[-1] if self._paddings else None
        if given is None or given.shape != (batch, keys) or place.site.stack.split(".")[0] in SEEN_OR_HEARD:
            return None
        rows = given[:, given.shape[1] - length :].to(torch.bool)
        return None if bool(rows.all()) else rows

    def real_rows(self, batch: int, length: int) -> Tensor | None:
        """Which rows of a cross-attention are no padding: those of the same text's attention to itself before it."""
        if self._rows is None or self._rows[:2] != (batch, length):
            return None
        return self._rows[2]

    def report(self, call: Call) -> None:
        """Hand a measured call to whoever watches."""
        self.report_layer(call.layer)
        self._sink(call)

    def report_layer(self, layer: int) -> None:
        """Note that a layer ran."""
        self.layers_seen.add(layer)

    def note_told(self, inputs: AttentionInputs) -> None:
        """Remember which statistics asked for by name a call could tell; the others it leaves out.

        Raises:
            InputError: one that no call will tell, since nothing is known of the tokens and nothing is generated.
        """
        names = (self.statistics,) if isinstance(self.statistics, str) else self.statistics
        for name in names:
            lack = lacking(name, inputs)
            if lack is None or name not in self._told:
                self._told[name] = lack
            if isinstance(lack, InputError) and self.known is None and self.generation is None:
                raise lack

    def check_seen(self) -> None:
        """Raise where no attention call, or none of a layer that was asked for, reached us, or none could tell a
        statistic that was asked for by name."""
        if self.calls == 0:
            if self._forward < 0:
                raise UnsupportedError(
                    "watch",
                    expected=f"{type(self.model).__name__} to run inside watch",
                    got="no call of it",
                    do="call the model in the with block",
                )
            what = "attends by its own code: heedmap's attention function was called 0 times"
            raise unwatchable(self.model, what)
        missing = sorted((self.selection.layers or frozenset()) - self.layers_seen)
        if missing:
            raise InputError(
                "watch",
                expected="every layer asked for to run inside watch",
                got=f"no attention call of layer {missing[0]}",
            )
        untold = next((lack for lack in self._told.values() if lack is not None), None)
        if untold is not None:
            raise untold


class _Begins:
    """The hook that tells a session that a model begins to run."""

    def __init__(self, session: Session, names: list[str]) -> None:
        self._session = session
        self._names = names

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(self._names, args, strict=False)) | kwargs
        self._session.begin(given.get("attention_mask"))


class _Runs:
    """The hook that tells a session about one attention module's runs."""

    def __init__(self, session: Session, names: list[str]) -> None:
        self._session = session
        self._names = names

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._session.run(module, dict(zip(self._names, args, strict=False)) | kwargs)


def _looks_elsewhere(module: nn.Module, given: dict[str, Any]) -> bool:
    """Whether a module attends to another text: keys from an encoder, or key states that are not the query states."""
    if any(given.get(name) is not None for name in _ELSEWHERE):
        return True
    if getattr(module, "is_cross_attention", False) is True or "CrossAttention" in type(module).__name__:
        return True
    return any(given.get(key) is not None and given.get(key) is not given.get(query) for key, query in _KEYS.items())


def in_backward() -> bool:
    """Whether autograd is at work, where gradient checkpointing runs a forward pass again."""
    return torch._C._current_graph_task_id() != -1


def unwatchable(model: nn.Module, why: str) -> UnsupportedError:
    """The refusal of a model, by name, with the way out."""
    return UnsupportedError(
        "watch",
        expected="a model that attends through transformers' attention interface",
        got=f"{type(model).__name__}, which {why}",
        do="load it with attn_implementation='eager' and use output_attentions=True, or watch another model",
    )
