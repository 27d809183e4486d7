"""`watch`: inside it, every attention call of a Hugging Face model is measured; outside, the model is as before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from torch import nn
from transformers import PreTrainedModel

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.generating import listening
from heedmap.capture.interface import SESSIONS
from heedmap.capture.joiner import Joiner
from heedmap.capture.known import Known
from heedmap.capture.selection import Selection
from heedmap.capture.session import Call, Session, unwatchable
from heedmap.capture.sums import Sums
from heedmap.errors import InputError, UnsupportedError

__all__ = ["Call", "Seen", "watch"]

Passes = Literal["joined", "apart", "summed"]


@dataclass
class Seen:
    """What a `watch` has seen: `calls`, in the order in which the model made them."""

    calls: list[Call] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Seen: {len(self.calls)} calls of {len(self.modules)} attention modules>"

    @property
    def modules(self) -> dict[str, list[Call]]:
        """The calls of each attention module, by the module's name in the model."""
        found: dict[str, list[Call]] = {}
        for call in self.calls:
            found.setdefault(call.module, []).append(call)
        return found

    def call(self, layer: int, part: str | None = None) -> Call:
        """The only call of one layer (of one part, where several parts have such a layer).

        Raises:
            InputError: there is no such call, or more than one.
        """
        found = [call for call in self.calls if call.layer == layer and part in (None, call.part)]
        if len(found) == 1:
            return found[0]
        parts = ", ".join(dict.fromkeys(call.part for call in found))
        raise InputError(
            "watch",
            expected=f"one call of layer {layer}" + (f" in {part}" if part else ""),
            got=f"{len(found)} calls" + (f" in {parts}" if found else ""),
            do="choose among seen.calls by part and forward" if found else None,
        )


@contextmanager
def watch(
    model: nn.Module,
    statistics: str | Iterable[str] = "default",
    layers: Iterable[int] | int | None = None,
    heads: Iterable[int | str | tuple[int, int]] | int | None = None,
    keep_inputs: bool = False,
    known: Known | None = None,
    passes: Passes = "joined",
) -> Iterator[Seen]:
    """Measure every attention call that a model makes inside the `with` block, exactly and in linear memory.

        with watch(model) as seen:
            model(**inputs)
        seen.call(layer=5).measurements["entropy"]      # [batch, head, query]

    The model may have been loaded with any attention implementation; it is set back on leaving, also after an
    exception. Watches nest (each sees every call) and repeat. Where gradients or dropout are at work the model's own
    implementation computes the output untouched, and weights are measured before dropout.

    Args:
        model: a transformers model, or a module around one (PEFT, SentenceTransformer, DistributedDataParallel).
        statistics: "default", "all", or names of statistics. What one call cannot tell (distance in cross-attention,
            copies in an image) is left out there.
        layers: layers to measure, as the model numbers them from 0; None for all.
        heads: heads to measure: numbers (in every layer), or `"layer.head"`, or `(layer, head)`; None for all.
        keep_inputs: keep each call's query and key, O(n) memory a layer.
        passes: what becomes of several forward passes. `"joined"`: the passes of one `generate()` make one call a
            layer and part, with a row for each token that was read, prompt and generated; its `token_ids` are the texts
            that were returned. Other passes are a call each. `"apart"`: every pass is a call, within `generate()` too.
            `"summed"`: one call a layer and part over all texts of all passes, whose sums add up
            (`Measurements.pooled`); memory does not grow with their number.
        known: facts about the tokens that run through the model (`heedmap.Known`): their ids for `duplicate` and
            `induction`, spans for `span_mass`, classes for `class_mass`; of an encoder–decoder about the encoder's
            text, which cross-attention reads too, and as `target` about the decoder's. What `generate()` adds to a
            text, and all token ids of its result, it knows by itself.

    Yields:
        `Seen`; its `calls` fill as the model runs.

    Raises:
        UnsupportedError: the model attends by its own code, or with an argument whose effect is not implemented.
        InputError: layers or heads that the model does not have; a statistic that no call of it could tell.
    """
    seen = Seen()
    if passes not in get_args(Passes):
        raise InputError("watch", expected=f"passes among {', '.join(get_args(Passes))}", got=repr(passes))
    if passes == "summed" and keep_inputs:
        raise InputError("watch", expected="keep_inputs with passes 'joined' or 'apart'", got="passes='summed'")
    take = (lambda call: seen.calls.append(_own(call))) if keep_inputs else seen.calls.append
    if passes == "summed":
        take = Sums(seen.calls).add
    session = Session(unwrap(model), Selection.of(layers, heads), statistics, keep_inputs, take, known=known)
    with opened(session, joined=passes != "apart"):
        yield seen


@contextmanager
def opened(session: Session, *, joined: bool = False) -> Iterator[None]:
    """Keep a session open, the passes of each `generate()` joined; the model is set back whatever happens."""
    configs = configurations(session)
    SESSIONS.enter(session, configs)
    try:
        session.follow()
        with listening(session.model, Joiner(session) if joined else None):
            yield
        session.check_seen()
    finally:
        session.unfollow()
        SESSIONS.leave(session, configs)


def _own(call: Call) -> Call:
    """The call with query and key of its own: a static cache overwrites the keys that it handed out."""
    kept = call.inputs
    if kept is None:
        return call
    inputs = AttentionInputs(
        kept.query.clone(),
        kept.key.clone(),
        scale=kept.scale,
        mask=kept.mask,
        softcap=kept.softcap,
        sinks=kept.sinks,
        query_offset=kept.query_offset,
        key_offset=kept.key_offset,
        valid_queries=kept.valid_queries,
        cross=kept.cross,
        token_ids=kept.token_ids,
        spans=kept.spans,
        classes=kept.classes,
        parts=kept.parts,
    )
    return replace(call, inputs=inputs)


def unwrap(model: Any) -> nn.Module:
    """The transformers model inside a wrapper.

    Raises:
        InputError: no torch module.
        UnsupportedError: a wrapper that runs copies or compiled code, or a module with no transformers model in it.
    """
    if not isinstance(model, nn.Module):
        raise InputError("watch", expected="a transformers model", got=type(model).__name__)
    if hasattr(model, "_orig_mod"):
        raise _wrapper(model, "compiled code", "watch and run the model itself: model._orig_mod")
    if isinstance(model, nn.DataParallel):
        raise _wrapper(model, "copies of the model", "watch and run the model itself: model.module")
    if isinstance(model, PreTrainedModel):
        return model
    inside = _outermost(model)
    if not inside:
        raise unwatchable(model, "holds no transformers model")
    return inside[0] if len(inside) == 1 else model


def _wrapper(model: nn.Module, what: str, do: str) -> UnsupportedError:
    return UnsupportedError(
        "watch", expected="a model whose own modules run", got=f"{type(model).__name__}, which runs {what}", do=do
    )


def _outermost(module: nn.Module) -> list[nn.Module]:
    found: list[nn.Module] = []
    for child in module.children():
        found.extend([child] if isinstance(child, PreTrainedModel) else _outermost(child))
    return found


def configurations(session: Session) -> list[Any]:
    """Every configuration that decides how a watched attention module attends or how its mask is made.

    A model inside the model that has no watchable attention (a tower with attention code of its own) keeps its own.
    """
    found: dict[int, Any] = {}
    for module in session.model.modules():
        attends = isinstance(module, PreTrainedModel) and any(id(inner) in session.sites for inner in module.modules())
        if attends or id(module) in session.sites:
            _collect(module.config, found)
    for config in list(found.values()):
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        _collect(text, found)
    return list(found.values())


def _collect(config: Any, found: dict[int, Any]) -> None:
    if hasattr(config, "_attn_implementation_internal"):
        found[id(config)] = config
