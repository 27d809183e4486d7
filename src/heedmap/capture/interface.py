"""Our attention function in transformers' interface: every call of a watched model comes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from heedmap.capture.facts import facts_of
from heedmap.capture.formula import Formula
from heedmap.capture.freed import give_back
from heedmap.capture.known import Generated
from heedmap.capture.lazy_mask import LazyMask, lazy_mask
from heedmap.capture.original import run_original
from heedmap.capture.reading import Reading, read_call
from heedmap.capture.session import NAME, Call, Place, Session, in_backward
from heedmap.errors import ModelError
from heedmap.kernels.hiding import NotFiniteError
from heedmap.measure import Found, sweep

if TYPE_CHECKING:
    from heedmap.capture.ablation import Ablation

CHEAP_MASK = 2**26
"""Pairs up to which a layer that is not measured may build its model's own dense mask (64 MB of booleans)."""


class Sessions:
    """The watches that are open now, the outermost first, and what each configuration was set to before them."""

    def __init__(self) -> None:
        self.open: list[Session] = []
        self._before: dict[int, tuple[Any, str | None, int]] = {}  # configuration, its implementation, how many hold it

    def enter(self, session: Session, configs: list[Any]) -> None:
        """Register our name with transformers, and set these configurations to it."""
        AttentionInterface.register(NAME, attention)
        AttentionMaskInterface.register(NAME, lazy_mask)
        for config in configs:
            _, before, holders = self._before.get(id(config), (config, config._attn_implementation, 0))
            self._before[id(config)] = (config, before, holders + 1)
            config._attn_implementation_internal = NAME
        self.open.append(session)

    def leave(self, session: Session, configs: list[Any]) -> None:
        """Set back every configuration that no other open watch holds."""
        self.open.remove(session)
        for config in configs:
            _, before, holders = self._before.pop(id(config))
            if holders > 1:
                self._before[id(config)] = (config, before, holders - 1)
            else:
                config._attn_implementation_internal = before

    def of(self, module: nn.Module) -> list[Session]:
        """The open watches that know this module."""
        return [session for session in self.open if id(module) in session.sites]

    def implementation(self, config: Any) -> str:
        """What a watched configuration was set to before."""
        entry = self._before.get(id(config))
        return "eager" if entry is None or entry[1] is None else entry[1]


SESSIONS = Sessions()


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """One attention call: measured for every open watch that asks for it, output as the model would compute it.

    Without gradients the output comes from the strips that are measured. In training, with dropout, and for layers
    that nobody asks for, the model's own implementation computes it.

    Returns:
        `(output [batch, query_len, query_heads, value_dim], None)`.
    """
    sessions = SESSIONS.of(module)
    if not sessions:
        raise ModelError(
            "watch",
            expected="attention of a model that is being watched",
            got=f"a call from {type(module).__name__}, whose model was copied inside watch",
            do="set the copy back with model.set_attn_implementation('sdpa')",
        )
    implementation = SESSIONS.implementation(module.config)
    call = InterfaceCall(module, query, key, value, attention_mask, keywords, implementation)
    if in_backward():  # gradient checkpointing runs the forward pass again
        output = call.original()
        for session in sessions:
            output = output if session.ablation is None else session.ablation.again(output, module)
        return output, None
    output: Tensor | None = None
    ablating: list[tuple[Ablation, Place]] = []
    for session in sessions:
        place = session.place(module, query, key)
        session.note_rows(place, attention_mask, *call.rows(), key.shape[2])
        if session.ablation is not None:
            ablating.append((session.ablation, place))
            session.report_layer(place.layer)
            continue
        if session.compute is not None:
            output = session.compute(call, session, place)
            continue
        heads = session.selection.of_layer(place.layer, query.shape[1])
        if heads is None:
            continue
        if session.generation is not None and session.generation.reads(place, query):
            with torch.no_grad():
                session.generation.take(place, call.read(session, place), attention_mask, call.dropout())
            session.report_layer(place.layer)
            give_back(query.shape[2])
            continue
        whole = output is None and heads == list(range(query.shape[1])) and not call.needs_original()
        try:
            found = call.measure(session, place, heads, with_output=whole)
        except NotFiniteError as error:
            if session.spoiled is None or whole:
                raise
            session.spoiled(place, error.place[1])
            continue
        output = found if whole else output
    if output is None:
        output = call.original() if call.needs_original() else call.unmeasured()
    for ablation, place in ablating:
        output = ablation.without(output, module, place)
    return output, None


class InterfaceCall:
    """One call as it came, with the ways to compute it."""

    def __init__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        keywords: dict[str, Any],
        implementation: str,
    ) -> None:
        self.module = module
        self.query = query
        self.key = key
        self.value = value
        self.attention_mask = attention_mask
        self.keywords = keywords
        self.implementation = implementation

    def rows(self) -> tuple[int, int]:
        """Batch size and number of query rows."""
        return max(self.query.shape[0], self.key.shape[0]), self.query.shape[2]

    def dropout(self) -> float:
        return float(self.keywords.get("dropout") or 0.0)

    def needs_original(self) -> bool:
        """Whether the model's own implementation must compute the output: for gradients and for its random draws."""
        wants_gradient = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (self.query, self.key, self.value)
        )
        return wants_gradient or self.module.training or self.dropout() > 0

    def original(self, implementation: str | None = None) -> Tensor:
        return self.original_with_weights(implementation or self.implementation)[0]

    def original_with_weights(self, implementation: str) -> tuple[Tensor, Any]:
        """Output and, from eager code, the dense weights."""
        return run_original(
            implementation, self.module, self.query, self.key, self.value, self.attention_mask, self.keywords
        )

    def read(self, session: Session, place: Place) -> Reading:
        return read_call(
            self.module,
            self.query,
            self.key,
            self.value,
            self.attention_mask,
            self.keywords,
            cross=place.cross,
            implementation=self.implementation,
            real_rows=session.real_rows(*self.rows())
            if place.cross
            else session.given_rows(place, *self.rows(), self.key.shape[2]),
        )

    def measure(self, session: Session, place: Place, heads: list[int], *, with_output: bool) -> Tensor | None:
        """Measure these heads for a watch and report to it; with all heads, also the output."""
        with torch.no_grad():
            found = measured(session, place, self.read(session, place), heads, self.dropout(), with_output=with_output)
            return _laid_out(found.output) if with_output and found.output is not None else None

    def unmeasured(self) -> Tensor:
        """The output of a layer that nobody asks for: from the model's own code where that costs little memory."""
        pairs = self.rows()[0] * self.query.shape[2] * self.key.shape[2]
        lazy = isinstance(self.attention_mask, LazyMask) and not self.attention_mask.plain()
        if self.implementation != "eager" and (pairs <= CHEAP_MASK or not lazy):
            return self.original()
        with torch.no_grad():
            reading = read_call(
                self.module,
                self.query,
                self.key,
                self.value,
                self.attention_mask,
                self.keywords,
                cross=False,
                implementation=self.implementation,
                real_rows=None,
            )
            found = sweep(reading.inputs(), statistics=())
        assert found.output is not None
        return _laid_out(found.output)


def measured(
    session: Session,
    place: Place,
    reading: Reading,
    heads: list[int],
    dropout: float,
    *,
    with_output: bool = False,
    generated: Generated | None = None,
) -> Found:
    """Sweep these heads of a reading and report them to a watch; with all heads, also the output."""
    known = facts_of(session.model, session.known, place, generated)
    every = reading.inputs(with_value=with_output or session.keeps_value, known=known)
    asked = every if with_output else reading.inputs(heads, with_value=session.needs_value, known=known)
    try:
        found = sweep(asked, session.statistics, partly=True)
    except NotFiniteError as error:
        item, head, row = error.place
        told = NotFiniteError(
            "watch",
            expected=error.expected,
            got=f"NaN or infinity in {place.part} layer {place.layer}, head {heads[head]}, at row {row} of text {item}",
            do="the model computes it: its weights may be damaged, or its dtype too narrow for them",
        )
        told.place = item, heads[head], row
        raise told from error
    session.note_told(asked)
    session.report(
        Call(
            module=place.site.name,
            layer=place.layer,
            part=place.part,
            measurements=found.measurements,
            formula=Formula.of(every, dropout),
            inputs=every if session.keep_inputs else None,
            heads=heads,
            forward=place.forward,
            token_ids=None if generated is None else generated.token_ids,
        )
    )
    give_back(every.query_len)
    return found


def _laid_out(output: Tensor) -> Tensor:
    """`[batch, heads, query_len, value_dim]` → `[batch, query_len, heads, value_dim]`, as models expect it."""
    return output.transpose(1, 2).contiguous()
