"""The part of a model that a text runs through, and how it generates more of it."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from heedmap.capture.positions import positions_of
from heedmap.capture.session import Session
from heedmap.capture.tokens import Tokens
from heedmap.errors import InputError, UnsupportedError

_SPARING = {"use_cache": False, "logits_to_keep": 1}
"""What a forward pass need not keep: keys and values of every layer, and logits of every token."""


class View:
    """A model without its language-model head, whose logits would cost more memory than all that is measured; of an
    encoder–decoder the encoder alone, or both where there is a text to decode.

    Args:
        model: the model.
        inputs: what the tokenizer made of the text, `[1, tokens]` each.
        target: token ids that the decoder reads, `[1, tokens]`.
    """

    def __init__(self, model: PreTrainedModel, inputs: dict[str, Tensor], target: Tensor | None = None) -> None:
        body = reader_of(model, inputs, decoding=target is not None)
        self._body: nn.Module = body
        named = set(inspect.signature(type(body).forward).parameters)
        device = next(model.parameters()).device
        self._inputs = {name: values.to(device) for name, values in inputs.items() if name in named}
        if target is not None:
            self._inputs["decoder_input_ids"] = target.to(device)
        self._settings = {name: value for name, value in _SPARING.items() if name in named}
        self.bytes_per_weight = next(model.parameters()).element_size()

    @property
    def length(self) -> int:
        """Tokens of the longest text."""
        return max(values.shape[1] for values in self._inputs.values())

    def forward(self, count: int) -> Tensor:
        """Run the first `count` tokens; hidden states `[1, count, width]`, or the last token's logits."""
        cut = {name: values[:, :count] for name, values in self._inputs.items()}
        return self._body(**cut, **self._settings)[0]

    def expected_layers(self, session: Session) -> int:
        """How many layers will be measured, for the progress bar."""
        sites = [session.sites[id(module)] for module in self._body.modules() if id(module) in session.sites]
        wanted = session.selection.layers
        return sum(1 for site in sites if wanted is None or site.number in wanted)


def reader_of(model: PreTrainedModel, inputs: dict[str, Tensor], *, decoding: bool) -> nn.Module:
    """The part of a model that reads a text: of an encoder–decoder that decodes nothing the encoder, of a model of
    texts and images its text tower, else the model without its head.

    Raises:
        UnsupportedError: it reads something else.
    """
    body = _body(model, decoding=decoding)
    parameters = inspect.signature(type(body).forward).parameters
    if "input_ids" in parameters and not any(_is_missing(parameter, inputs) for parameter in parameters.values()):
        return body
    raise UnsupportedError(
        "look",
        expected="a model that reads text",
        got=f"{type(model).__name__}, which reads {getattr(body, 'main_input_name', 'something else')}",
        do="watch it while it reads: with heedmap.watch(model) as seen: model(…)",
    )


def _body(model: PreTrainedModel, *, decoding: bool) -> nn.Module:
    if getattr(model.config, "is_encoder_decoder", False) and not decoding:
        return model.get_encoder()
    tower = getattr(model, "text_model", None)
    if callable(getattr(model, "get_text_features", None)) and isinstance(tower, nn.Module):
        return tower
    return getattr(model, "base_model", model)


def _is_missing(parameter: inspect.Parameter, inputs: dict[str, Tensor]) -> bool:
    """Whether a model's forward must be given something that no tokenizer makes."""
    named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    return named and parameter.default is parameter.empty and parameter.name not in {"self", "input_ids", *inputs}


def check_known(model: PreTrainedModel, tokens: Tokens) -> None:
    """Raise where a tokenizer gives tokens that a model has no row for: they belong to different models."""
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:  # a model with several tables
        return
    rows = getattr(table, "num_embeddings", None)
    if not isinstance(rows, int) or max(tokens.ids) < rows:
        return
    first = next(place for place, token in enumerate(tokens.ids) if token >= rows)
    raise InputError(
        "look",
        expected=f"tokens of {type(model).__name__}, numbered below {rows:,}",
        got=f"token {tokens.ids[first]:,} ({tokens.labels[first]!r}) at position {first}",
        do="take the tokenizer that the model was trained with",
    )


def start_of(model: PreTrainedModel) -> int:
    """The token that a decoder starts with.

    Raises:
        InputError: the model names none.
    """
    for config in (model.config, getattr(model, "generation_config", None)):
        start = getattr(config, "decoder_start_token_id", None)
        if start is not None:
            return int(start)
    raise InputError("look", expected="a model that names its decoder_start_token_id", got=type(model).__name__)


def check_generates(model: PreTrainedModel, prompt: int, new: int) -> None:
    """Raise where a model cannot generate, or not so many tokens."""
    if new < 1:
        raise InputError("look", expected="generate of 1 or more tokens", got=f"{new}")
    if not (model.can_generate() and callable(getattr(model, "generate", None))):
        raise UnsupportedError(
            "look",
            expected="a model that generates text",
            got=f"{type(model).__name__}, which has no language-model head",
            do="take a model for causal or sequence-to-sequence language modelling, such as smollm2",
        )
    positions = positions_of(model.config)
    read = new if getattr(model.config, "is_encoder_decoder", False) else prompt + new - 1
    if positions is not None and read > positions:
        raise InputError(
            "look",
            expected=f"at most {positions} tokens, the positions of this model",
            got=f"{prompt} in the text and {new} to generate",
            do="cut the text with --tokens (max_tokens=), or generate fewer",
        )


class Counter:
    """What `generate()` takes for a streamer: told of every new token."""

    def __init__(self, tell: Any, total: int) -> None:
        self._tell, self._total, self._done = tell, total, -1

    def put(self, value: Tensor) -> None:
        """First the prompt, then one token at a time."""
        self._done += 1
        self._tell("generate", self._done, self._total)

    def end(self) -> None:
        """No more tokens."""


def generate(model: Any, inputs: dict[str, Tensor], new: int, tell: Any) -> Tensor:
    """Let a model go on from a text with its most likely tokens, `new` at most; the whole text, `[tokens]`."""
    config = copy.deepcopy(model.generation_config)
    settings: dict[str, Any] = {"do_sample": False, "num_beams": 1, "num_return_sequences": 1, "max_length": None}
    unused = dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p"))
    config.update(**settings, **unused, max_new_tokens=new, return_dict_in_generate=False)
    if config.pad_token_id is None:
        end = config.eos_token_id
        config.pad_token_id = end[0] if isinstance(end, list) else end if end is not None else 0
    named = set(inspect.signature(type(model).forward).parameters)
    device = next(model.parameters()).device
    given = {name: values.to(device) for name, values in inputs.items() if name in named}
    with torch.no_grad():
        return model.generate(**given, generation_config=config, streamer=Counter(tell, new))[0]
