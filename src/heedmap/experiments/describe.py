"""What kind of attention a model has, layer by layer: from its config and one tiny forward pass without weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from heedmap.capture.failures import FAILURES, short
from heedmap.capture.formula import describe as describe_mask
from heedmap.capture.interface import InterfaceCall
from heedmap.capture.lazy_mask import LazyMask
from heedmap.capture.positions import positions_of
from heedmap.capture.quiet import quiet
from heedmap.capture.reading import read_call
from heedmap.capture.selection import Selection
from heedmap.capture.session import Call, Place, Session
from heedmap.capture.watch import opened
from heedmap.errors import HeedmapError, ModelError, UnsupportedError
from heedmap.experiments.position_schemes import position_scheme

WHERE = "describe"
TOKENS = 8
_NORMS = {"q_norm", "k_norm", "query_norm", "key_norm", "q_layernorm", "k_layernorm", "qk_norm"}
_SMALL = {
    "vocab_size": 128,
    "intermediate_size": 64,
    "intermediate_size_mlp": 64,
    "moe_intermediate_size": 64,
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 4,
}
"""Sizes outside attention, and what they may be where weights must be made up."""
LARGEST = 300_000_000
"""Parameters up to which weights are made up."""


class PassError(UnsupportedError):
    """A forward pass over a few tokens that did not work."""


@dataclass(frozen=True)
class Kind:
    """What sets one layer's attention apart; layers with equal kinds attend alike.

    Attributes:
        part: the stack that the layer stands in (`self`, `encoder`, `decoder`, `cross`, `text`, `vision`).
        direction: "causal", "bidirectional", "cross" (the keys are another text's), or "by a mask of its own".
        query_heads, key_heads, head_dim, value_dim: sizes.
        positions: how the attention knows where tokens stand, as words: "rotary, base 10,000".
        window: keys a query sees at most, itself counted; of a window to both sides the keys on either side.
        chunk: size of the chunks within which tokens attend.
        softcap: c in c · tanh(score / c), or None.
        sinks: whether each head has a logit that is dropped after the softmax.
        scale: factor on q·k.
        normalised: whether query and key are normalised before the product.
        latent: rank of the latent from which key and value come, or None.
    """

    part: str
    direction: str
    query_heads: int
    key_heads: int
    head_dim: int
    value_dim: int
    positions: str
    window: int | None
    both_sides: bool
    chunk: int | None
    softcap: float | None
    sinks: bool
    scale: float
    normalised: bool
    latent: int | None

    @property
    def variant(self) -> str:
        """Multi-head, grouped-query or multi-query."""
        if self.latent is not None:
            return "multi-head latent"
        if self.key_heads == self.query_heads:
            return "multi-head" if self.query_heads > 1 else "single-head"
        return "multi-query" if self.key_heads == 1 else "grouped-query"


@dataclass(frozen=True)
class Description:
    """A model's attention: `layers` in the order in which they ran, as (part, layer, kind)."""

    name: str
    model_class: str
    parameters: int
    positions: int | None
    vocabulary: int | None
    layers: list[tuple[str, int, Kind]]

    @property
    def kinds(self) -> list[tuple[Kind, list[int]]]:
        """The different kinds, each with its layers."""
        found: dict[Kind, list[int]] = {}
        for _, layer, kind in self.layers:
            found.setdefault(kind, []).append(layer)
        return list(found.items())

    def document(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "class": self.model_class,
            "parameters": self.parameters,
            "positions": self.positions,
            "vocabulary": self.vocabulary,
            "kinds": [asdict(kind) | {"variant": kind.variant, "layers": layers} for kind, layers in self.kinds],
        }


def describe(name: str) -> Description:
    """Describe a packaged model, a folder, a config.json, a GGUF file or a hub id by its config: no weights are read.

    Raises:
        ModelError: no config that can be read, or none from which a model can be built.
        UnsupportedError: a model that does not attend through transformers' interface.
    """
    from heedmap.experiments.skeleton import config_of

    try:
        config, kind, _, title = config_of(name)
    except HeedmapError as error:
        raise ModelError(WHERE, expected=error.expected, got=error.got, do=error.do) from error
    model_class = (config.architectures or [None])[0]
    model = _build(config, kind, name, "meta")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    try:
        found = describe_model(model, title, model_class)
    except PassError:  # its code reads numbers, which a model on the meta device does not have
        small = _build(_small(config), kind, name, "meta")
        if sum(parameter.numel() for parameter in small.parameters()) > LARGEST:
            raise
        found = describe_model(_build(_small(config), kind, name, "cpu"), title, model_class)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return replace(found, parameters=parameters, vocabulary=getattr(text, "vocab_size", None))


def _build(config: Any, kind: Any, name: str, device: str) -> PreTrainedModel:
    """The body of a model with random weights, or on the meta device without any."""
    import transformers

    try:
        with quiet(), torch.device(device):
            try:
                return transformers.AutoModel.from_config(config)
            except ValueError:
                return kind._from_config(config)
    except FAILURES as error:
        raise ModelError(WHERE, expected=f"a model from the config of '{name}'", got=short(error)) from error


def _small(config: Any) -> Any:
    """A copy of a config with small layers between its attention, which stays as it is."""
    small = deepcopy(config)
    small.dtype = torch.float32
    for part in {id(part): part for part in (small, small.get_text_config())}.values():
        for field, size in _SMALL.items():
            value = getattr(part, field, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > size:
                setattr(part, field, size)
        if isinstance(vars(part).get("head_dim"), int) and isinstance(getattr(part, "hidden_size", None), int):
            part.hidden_size = min(part.hidden_size, 64)
    return small


@torch.no_grad()
def describe_model(model: PreTrainedModel, name: str, model_class: str | None = None) -> Description:
    """Describe a model by one forward pass over a few tokens (or one image, or one sound) on the device that it is on.

    Raises:
        UnsupportedError: a model that cannot be watched, or reads what a few tokens cannot stand for.
    """
    taker = _Taker(model)
    session = _Session(model, Selection.of(None, None), (), False, _ignore, compute=taker)
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with quiet(), opened(session):
            model(**_inputs(model))
    except HeedmapError:
        raise
    except FAILURES as error:
        raise PassError(
            WHERE,
            expected=f"a tiny forward pass of {type(model).__name__}",
            got=short(error),
            do="look at a short text with it: run.layers holds the formula of each layer",
        ) from error
    finally:
        for module in training:
            module.training = True
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    return Description(
        name=name,
        model_class=model_class or type(model).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        positions=positions_of(model.config),
        vocabulary=getattr(config, "vocab_size", None),
        layers=taker.layers,
    )


class _Session(Session):
    """A watch that asks nothing of padding, whose numbers a model without weights does not have."""

    def note_rows(self, place: Place, mask: Any, batch: int, length: int, keys: int) -> None: ...


class _Taker:
    """Stands in for the measuring: notes what each call is, and gives an output of the right shape."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.layers: list[tuple[str, int, Kind]] = []
        self._seen: set[tuple[str, int]] = set()

    def __call__(self, call: InterfaceCall, session: Session, place: Place) -> Tensor:
        session.report_layer(place.layer)
        if (place.part, place.layer) not in self._seen:
            self._seen.add((place.part, place.layer))
            self.layers.append((place.part, place.layer, self._kind(call, place)))
        return call.query.new_zeros(call.query.shape[0], call.query.shape[2], call.query.shape[1], call.value.shape[-1])

    def _kind(self, call: InterfaceCall, place: Place) -> Kind:
        keywords = {name: value for name, value in call.keywords.items() if name != "position_bias"}
        biased = call.keywords.get("position_bias") is not None
        reading = read_call(
            call.module,
            _shape_only(call.query),
            _shape_only(call.key),
            _shape_only(call.value),
            call.attention_mask.unpadded() if isinstance(call.attention_mask, LazyMask) else call.attention_mask,
            keywords,
            cross=place.cross,
            implementation=call.implementation,
            real_rows=None,
        )
        mask = {"kind": "opaque"} if reading.tables else describe_mask(reading.mask)
        window, chunk = _find(mask, "sliding_window"), _find(mask, "chunked")
        parts = {name.rpartition(".")[2] for name, _ in call.module.named_modules()}
        rank = getattr(call.module, "kv_lora_rank", None)
        head_dim = call.query.shape[3]
        scheme = "none of its own"
        if not place.cross:
            scheme = position_scheme(self._model, call.module, place.site.name, place.layer, biased=biased)
        return Kind(
            part=place.part,
            direction="cross" if place.cross else _direction(mask),
            query_heads=call.query.shape[1],
            key_heads=call.key.shape[1],
            head_dim=head_dim,
            value_dim=call.value.shape[3],
            positions=scheme,
            window=None if window is None else window["size"],
            both_sides=window is not None and bool(window.get("both_sides")),
            chunk=None if chunk is None else chunk["size"],
            softcap=reading.softcap,
            sinks=reading.sinks is not None,
            scale=head_dim**-0.5 if reading.scale is None else reading.scale,
            normalised=bool(parts & _NORMS),
            latent=rank if isinstance(rank, int) else None,
        )


def _shape_only(tensor: Tensor) -> Tensor:
    """A tensor of the same shape and dtype that takes no memory, on a device on which everything can be asked."""
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


def _find(mask: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    if mask["kind"] == kind:
        return mask
    return next((found for part in mask.get("of", ()) if (found := _find(part, kind)) is not None), None)


def _direction(mask: Mapping[str, Any]) -> str:
    window = _find(mask, "sliding_window")
    if _find(mask, "causal") is not None or (window is not None and not window.get("both_sides")):
        return "causal"
    return "by a mask of its own" if _find(mask, "opaque") is not None else "bidirectional"


def _inputs(model: PreTrainedModel) -> dict[str, Any]:
    """A few tokens, one image or one short sound: whatever the model's forward asks for."""
    config, device = model.config, next(model.parameters()).device
    named = set(inspect.signature(type(model).forward).parameters)
    tokens = torch.zeros(1, TOKENS, dtype=torch.long, device=device)
    vision = getattr(config, "vision_config", config)
    audio = getattr(config, "audio_config", config)
    given: dict[str, Any] = {}
    if "input_ids" in named:
        given["input_ids"] = tokens
    needs_image = model.main_input_name == "pixel_values" or ("input_ids" in named and "pixel_values" in named
                                                              and hasattr(config, "projection_dim"))  # fmt: skip
    if "pixel_values" in named and needs_image:
        size = getattr(vision, "image_size", 32)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        given["pixel_values"] = torch.zeros(1, getattr(vision, "num_channels", 3), height, width, device=device)
    if "input_features" in named:
        frames = 2 * getattr(audio, "max_source_positions", 50)
        given["input_features"] = torch.zeros(1, getattr(audio, "num_mel_bins", 80), frames, device=device)
    if "input_values" in named and "input_ids" not in named:
        given["input_values"] = torch.zeros(1, 4_000, device=device)
    if "decoder_input_ids" in named:
        given["decoder_input_ids"] = tokens
    for mask, ids in (("attention_mask", "input_ids"), ("decoder_attention_mask", "decoder_input_ids")):
        if mask in named and ids in given:  # without one, models look for packed texts in numbers that are not there
            given[mask] = torch.ones_like(tokens)
    if "use_cache" in named:
        given["use_cache"] = False
    return given


def _ignore(call: Call) -> None:
    """Nothing is measured."""
