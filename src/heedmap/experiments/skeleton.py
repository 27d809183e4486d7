"""A model without its weights: built from its config on the meta device, it tells shapes, operations and memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from heedmap.capture.failures import FAILURES, short
from heedmap.capture.freed import LONG
from heedmap.capture.quiet import quiet
from heedmap.errors import InputError, ModelError, UnsupportedError
from heedmap.experiments.counted_experts import count_experts
from heedmap.experiments.live_bytes import LiveBytes
from heedmap.experiments.operations import Shape

WHERE = "plan"
NAME = "heedmap_counted"
PAGES_READ = 64 * 2**10
"""Bytes of a mapped file that Linux brings in for each place that is read: 16 pages around it."""


@dataclass(frozen=True)
class Attended:
    """One attention call of a forward pass: its shape, and how many keys a query sees at most."""

    shape: Shape
    key_len: int
    causal: bool
    window: int | None

    @property
    def cells(self) -> int:
        """Entries of all heads' matrices."""
        return self.shape.batch * self.shape.heads * self.shape.n * self.key_len

    @property
    def visited(self) -> float:
        """Entries that a sweep computes: below the diagonal, within the window."""
        seen = self.key_len if self.window is None else min(self.window, self.key_len)
        share = 1.0 if not self.causal else seen / self.key_len * (1 - (seen - 1) / (2 * self.key_len))
        return self.cells * share


@dataclass(frozen=True)
class Passed:
    """A forward pass over n tokens, counted."""

    attended: tuple[Attended, ...]
    operations: int
    """Of matrix products outside attention."""
    peak_bytes: int
    """What activations take of the process at the peak, with what `passing` said for each attention call."""


class Skeleton:
    """The body that heedmap looks at (no language-model head; an encoder–decoder's encoder), on the meta device.

    Raises:
        ModelError: a config from which no model can be built.
        UnsupportedError: a model that does not attend through transformers' interface.
    """

    def __init__(self, config: Any, kind: Any, name: str) -> None:
        self.name = name
        self.config = config
        try:
            with quiet(), torch.device("meta"):
                whole: PreTrainedModel = kind._from_config(config) if hasattr(kind, "_from_config") else (
                    kind.from_config(config)
                )  # fmt: skip
        except FAILURES as error:
            raise ModelError(WHERE, expected=f"a model from the config of '{name}'", got=short(error)) from error
        self.weights = sum(p.numel() * p.element_size() for p in whole.parameters())
        self.parameters = sum(p.numel() for p in whole.parameters())
        self.largest = max((p.numel() * p.element_size() for p in whole.parameters()), default=0)
        self.itemsize = next(whole.parameters()).element_size()
        self.body: nn.Module = whole.get_encoder() if config.is_encoder_decoder else whole.base_model
        self.body.eval()
        self.kind = type(whole).__name__
        self._embeddings = _weight(whole.get_input_embeddings)
        head = _weight(whole.get_output_embeddings)
        tied = bool(getattr(config.get_text_config(), "tie_word_embeddings", False))
        self._head = 0 if head is None or tied else head.numel() * head.element_size()
        self.vocabulary = 0 if self._embeddings is None else self._embeddings.shape[0]

    def unread_bytes(self, tokens: int) -> int:
        """Weights that stay in a file of safetensors, which is mapped and not copied, when a text of so many tokens is
        read: pages of the embeddings on which no token's row is, and the head that turns the last layer into words."""
        if self._embeddings is None:
            return self._head
        rows, row = self._embeddings.shape[0], self._embeddings.shape[1] * self._embeddings.element_size()
        return self._head + max(0, rows * row - tokens * max(row, PAGES_READ))

    @torch.no_grad()
    def forward(self, n: int, batch: int, passing: Callable[[Shape], int] | None = None) -> Passed:
        """Count one forward pass; `passing` says how many bytes an attention call of a shape holds while it works.

        With it, freed memory is given back after each layer, as `look` does; without it, nothing is looked at.

        Raises:
            UnsupportedError: no attention call came through transformers' interface.
        """
        calls: list[Attended] = []
        live = LiveBytes()

        def attention(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, **settings: Any
        ) -> tuple[Tensor, None]:
            call = _attended(module, query, key, value, settings)
            calls.append(call)
            if passing is not None:
                live.passing(passing(call.shape))
                if n >= LONG:
                    live.give_back()
            return query.new_empty(query.shape[0], query.shape[2], query.shape[1], value.shape[-1]), None

        AttentionInterface.register(NAME, attention)
        AttentionMaskInterface.register(NAME, _no_mask)
        for config in _configs(self.body):
            config._attn_implementation_internal = NAME
            count_experts(config)
        named = inspect.signature(type(self.body).forward).parameters
        if "input_ids" not in named:
            raise UnsupportedError(WHERE, expected="a model that reads tokens", got=f"{self.kind}, which does not")
        with torch.device("meta"):
            tokens = torch.zeros(batch, n, dtype=torch.long)
        settings: dict[str, Any] = {"use_cache": False, "attention_mask": torch.ones_like(tokens)}
        settings = {name: value for name, value in settings.items() if name in named}
        counter = FlopCounterMode(display=False)
        try:
            with quiet(), counter, live:
                self.body(input_ids=tokens, **settings)
        except FAILURES as error:
            raise UnsupportedError(
                WHERE, expected=f"a forward pass of {self.kind} that can be counted", got=short(error),
                do="look at a short text and see its cost instead",
            ) from error  # fmt: skip
        if not calls:
            raise UnsupportedError(
                WHERE, expected="a model that attends through transformers' attention interface", got=self.kind
            )
        return Passed(tuple(calls), counter.get_total_flops(), live.held_peak)


def config_of(name: str) -> tuple[Any, Any, Path | None, str]:
    """The config of a packaged model, a folder, a config.json, a GGUF file or a hub id, without its weights.

    Returns the config, the class to build, the GGUF file where the weights come from one, and what to call it.

    Raises:
        ModelError: there is none that can be read.
    """
    import transformers

    from heedmap.capture.packaged import PACKAGED, weights_of

    path, title = Path(name).expanduser(), name
    if name in PACKAGED:
        path = weights_of(PACKAGED[name])
        path = path if PACKAGED[name].gguf else path.parent
    elif not path.exists():
        path = _of_hub(name)
    elif path.is_dir() and not (path / "config.json").exists():
        path = next(iter(sorted(path.glob("*.gguf"))), path)
    gguf = path if path.suffix == ".gguf" and path.is_file() else None
    source = path
    settings: dict[str, Any] = {"trust_remote_code": False}
    if gguf is not None:
        source, settings = gguf.parent, {**settings, "gguf_file": gguf.name}
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(source, **settings)
    except FAILURES as error:
        raise ModelError(
            WHERE, expected="a model's name, folder, config.json or GGUF file", got=f"'{name}': {short(error)}"
        ) from error
    if gguf is not None:
        config.dtype = torch.float32  # as heedmap loads it
    kind: Any = transformers.AutoModel
    for architecture in config.architectures or []:
        found = getattr(transformers, architecture, None)
        kind = found if isinstance(found, type) else kind
    if gguf is not None and type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        kind = transformers.AutoModelForCausalLM
    return config, kind, gguf, title


def _of_hub(name: str) -> Path:
    from heedmap.capture.hub import config_folder
    from heedmap.capture.loading import looks_like_path

    if not name.strip() or looks_like_path(name):
        raise ModelError(WHERE, expected="a model's name, folder, config.json or GGUF file", got=f"nothing at '{name}'")
    try:
        return config_folder(name)
    except ModelError as error:
        raise ModelError(WHERE, expected=error.expected, got=error.got, do=error.do) from error


def check_length(n: int, batch: int, positions: int | None, name: str) -> None:
    """Raise where a model has no such positions."""
    if n < 1 or batch < 1:
        raise InputError(WHERE, expected="1 or more tokens and texts", got=f"{n} and {batch}")
    if positions is not None and n > positions:
        raise InputError(
            WHERE, expected=f"at most {positions:,} tokens, the positions of '{name}'", got=f"{n:,}",
            do=f"plan with --tokens {positions}",
        )  # fmt: skip


def _attended(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, settings: dict[str, Any]) -> Attended:
    causal = settings.get("is_causal")
    shape = Shape(
        n=query.shape[2],
        heads=query.shape[1],
        head_dim=query.shape[3],
        key_heads=key.shape[1],
        value_dim=value.shape[3],
        itemsize=query.element_size(),
        batch=query.shape[0],
    )
    return Attended(
        shape,
        key.shape[2],
        bool(getattr(module, "is_causal", False) if causal is None else causal),
        settings.get("sliding_window"),
    )


def _weight(of: Callable[[], Any]) -> Tensor | None:
    """The matrix of a module that a model may have or not."""
    try:
        weight = getattr(of(), "weight", None)
    except (NotImplementedError, AttributeError):  # a model that reads no words says so in this way
        return None
    return weight if isinstance(weight, Tensor) else None


def _configs(body: nn.Module) -> list[Any]:
    found = {id(m.config): m.config for m in body.modules() if isinstance(m, PreTrainedModel)}
    return list(found.values())


def _no_mask(**settings: Any) -> None:
    return None
