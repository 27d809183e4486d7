"""`look`: from a text and a model to a run, the folder that keeps what every head attends to."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.account import implementation, model_entry, peak_bytes, versions
from heedmap.capture.known import Known
from heedmap.capture.models import LoadedModel, resolve
from heedmap.capture.passages import Passage, locate, stretches
from heedmap.capture.positions import positions_of
from heedmap.capture.selection import Selection
from heedmap.capture.selfcheck import self_check
from heedmap.capture.session import Call, Session
from heedmap.capture.tokens import Tokens, tokenise
from heedmap.capture.watch import opened
from heedmap.errors import HeedmapWarning, InputError
from heedmap.runs.reader import Run
from heedmap.runs.writer import RunWriter
from heedmap.statistics.catalogue import choose

_SPARING = {"use_cache": False, "logits_to_keep": 1}
"""What a forward pass need not keep: keys and values of every layer, and logits of every token."""


class Progress(Protocol):
    """Told what `look` is at: `stage` is "load", "tokenise", "forward", "check" or "write", `done` of `total` steps."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


def look(
    text: str,
    model: str | os.PathLike[str] | PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    text_pair: str | None = None,
    out: str | os.PathLike[str] | None = None,
    layers: Iterable[int] | int | None = None,
    heads: Iterable[int | str | tuple[int, int]] | int | None = None,
    statistics: str | Iterable[str] = "default",
    spans: Mapping[str, Passage] | None = None,
    max_tokens: int | None = None,
    keep_inputs: bool = True,
    progress: Progress | None = None,
    command: list[str] | None = None,
) -> Run:
    """Look at a text: run it through a model once and keep the exact attention statistics of every head.

    Memory is linear in the length of the text: each layer is written as soon as it is measured. An encoder–decoder is
    looked at with its encoder. The run checks itself against the model's own eager attention.

        run = look("The cat sat on the mat because it was tired", out="runs/cat")
        run.weights(5, 11)      # [tokens, tokens], exact

    Args:
        text: the text; with `text_pair` the first of two.
        model: a model in memory, a packaged model's name, a folder, a GGUF file or a hub id; None for the default.
        tokenizer: where the model in memory does not tell where its tokenizer comes from.
        text_pair: a second text, for models that read pairs.
        out: the folder to write; an earlier run there is replaced. None keeps the run in a temporary folder for as
            long as the returned `Run` is in use.
        layers, heads, statistics: what to measure, as in `watch`.
        spans: named passages of the text, whose share of each token's attention is measured (`span_mass`): the words of
            each, which stand once in the text, or `(start, end)` in characters, or a list of such places.
        max_tokens: cut the text to this many tokens.
        keep_inputs: keep query and key, from which any window of any matrix is exact.
        progress: called as work goes on, see `Progress`.
        command: the command line, for `run.json`.

    Returns:
        The run, open.

    Raises:
        InputError: a text, layers, heads or statistics that cannot be used; a text longer than the model's positions.
        ModelError, UnsupportedError: a model that cannot be found, loaded or watched.
        RunError, StorageError: a folder that may not be replaced or cannot be written. Nothing half-written stays.
    """
    tell = progress or _silent
    began = time.perf_counter()
    selection = Selection.of(layers, heads)
    names = _checked_names(statistics, with_spans=spans is not None)
    with _folder(out) as (path, temporary):
        writer = RunWriter(path, overwrite=True, keep_inputs=keep_inputs)
        tell("load", 0, 1)
        loaded = resolve(model, tokenizer)
        tell("load", 1, 1)
        at_load = time.perf_counter()
        tokens, inputs = _tokenised(loaded, text, text_pair, max_tokens)
        passages = {} if spans is None else locate(spans, tokens)
        tell("tokenise", 1, 1)
        at_tokens = time.perf_counter()
        with writer, _evaluating(loaded.model):
            writer.source(text, text_pair)
            writer.tokens(_columns(tokens))
            viewed = _View(loaded.model, inputs)
            taken = _Taker(writer, tell)
            known = Known.of_tokens(tokens, passages)
            session = Session(loaded.model, selection, names, keep_inputs, taken, known=known)
            taken.expect(viewed.expected_layers(session))
            attention = implementation(session)
            with opened(session), torch.no_grad():
                viewed.forward(len(tokens))
            at_forward = time.perf_counter()
            tell("check", 0, 1)
            checked = self_check(loaded.model, viewed.forward, len(tokens), selection, taken.windows)
            tell("check", 1, 1)
            _warn(checked)
            tell("write", 0, 1)
            run = writer.finish(
                {
                    "command": command,
                    "model": model_entry(loaded, attention),
                    "text": {"tokens": len(tokens), "truncated_from": tokens.truncated_from},
                    "self_check": checked,
                    "cost": {
                        "seconds": {
                            "load": at_load - began,
                            "tokenise": at_tokens - at_load,
                            "forward": at_forward - at_tokens,
                            "total": time.perf_counter() - began,
                        },
                        "peak_bytes": peak_bytes(loaded.model),
                        "output_attentions_bytes": session.pairs * viewed.bytes_per_weight,
                    },
                    "versions": versions(),
                }
                | ({"spans": {name: stretches(marks) for name, marks in passages.items()}} if passages else {})
            )
            tell("write", 1, 1)
        if temporary:
            weakref.finalize(run, shutil.rmtree, path.parent, ignore_errors=True)
        return run


class _View:
    """The part of a model that a text runs through: no language-model head, whose logits would cost more memory than
    all that is measured; of an encoder–decoder the encoder."""

    def __init__(self, model: PreTrainedModel, inputs: dict[str, Tensor]) -> None:
        if getattr(model.config, "is_encoder_decoder", False):
            body = model.get_encoder()
        else:
            body = getattr(model, "base_model", model)
        self._body: nn.Module = body
        named = set(inspect.signature(type(body).forward).parameters)
        device = next(model.parameters()).device
        self._inputs = {name: values.to(device) for name, values in inputs.items() if name in named}
        self._settings = {name: value for name, value in _SPARING.items() if name in named}
        self.bytes_per_weight = next(model.parameters()).element_size()

    def forward(self, count: int) -> Tensor:
        """Run the first `count` tokens; hidden states `[1, count, width]`, or the last token's logits."""
        cut = {name: values[:, :count] for name, values in self._inputs.items()}
        return self._body(**cut, **self._settings)[0]

    def expected_layers(self, session: Session) -> int:
        """How many layers will be measured, for the progress bar."""
        sites = [session.sites[id(module)] for module in self._body.modules() if id(module) in session.sites]
        wanted = session.selection.layers
        return sum(1 for site in sites if wanted is None or site.number in wanted)


class _Taker:
    """Writes each measured layer and forgets it."""

    def __init__(self, writer: RunWriter, tell: Progress) -> None:
        self._writer = writer
        self._tell = tell
        self._done = 0
        self._total = 0
        self.windows: list[int] = []

    def expect(self, total: int) -> None:
        self._total = total
        self._tell("forward", 0, total)

    def __call__(self, call: Call) -> None:
        entry = call.formula.entry(call.part, call.layer, call.module, call.heads)
        entry["kernel"] = call.measurements.kernel
        inputs = {} if call.inputs is None else _arrays(call.inputs)
        self._writer.layer(entry, call.measurements, **inputs)
        self.windows.extend(_sizes(call.formula.mask))
        self._done += 1
        self._tell("forward", self._done, max(self._done, self._total))


def _arrays(inputs: AttentionInputs) -> dict[str, Any]:
    query, key = (tensor[0].detach().cpu().contiguous() for tensor in (inputs.query, inputs.key))
    if query.dtype == torch.bfloat16:
        bits = [tensor.view(torch.int16).numpy().view(np.uint16) for tensor in (query, key)]
        return {"query": bits[0], "key": bits[1], "dtype": "bf16"}
    return {"query": query.numpy(), "key": key.numpy()}


def _sizes(mask: dict[str, Any]) -> list[int]:
    """The windows and chunks in a mask's description."""
    return [size for part in mask.get("of", ()) for size in _sizes(part)] + ([mask["size"]] if "size" in mask else [])


def _tokenised(
    loaded: LoadedModel, text: str, text_pair: str | None, max_tokens: int | None
) -> tuple[Tokens, dict[str, Tensor]]:
    if loaded.tokenizer is None:
        raise InputError(
            "look",
            expected="a tokenizer for a model given in memory",
            got=f"none that comes with {type(loaded.model).__name__}",
            do="give it as look(text, model, tokenizer)",
        )
    positions = positions_of(loaded.model.config)
    return tokenise(loaded.tokenizer, text, text_pair, max_tokens=max_tokens, positions=positions)


def _checked_names(statistics: str | Iterable[str], *, with_spans: bool) -> list[str]:
    """The names of statistics, checked before a model is loaded; spans that are named are measured."""
    names = [statistics] if isinstance(statistics, str) else list(statistics)
    if with_spans and not {"all", "span_mass"} & set(names):
        names.append("span_mass")
    one, mark = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, dtype=torch.bool)
    spans = {"span": mark} if with_spans else None
    choose(names, AttentionInputs(one, one, one, token_ids=mark.long(), classes={"class": mark}, spans=spans))
    return names


def _columns(tokens: Tokens) -> dict[str, list[Any]]:
    return {
        "position": list(range(len(tokens))),
        "id": tokens.ids,
        "text": tokens.labels,
        "start": tokens.start,
        "end": tokens.end,
        "word": tokens.word,
        "special": tokens.special,
        "segment": tokens.segment,
    }


def _warn(checked: dict[str, Any] | None) -> None:
    if checked is None:
        warnings.warn(
            "this model has no eager attention to compare with: the run could not check itself",
            HeedmapWarning,
            stacklevel=3,
        )
        return
    if not checked["passed"]:
        warnings.warn(
            f"the self-check failed: weights of head {checked['layer']}.{checked['head']} differ from the model's own "
            f"eager attention by {checked['max_abs_error']:.1e}, budget {checked['budget']:.1e}: do not trust this run",
            HeedmapWarning,
            stacklevel=3,
        )
    if not checked["loaded_agrees"]:
        warnings.warn(
            "the attention implementation that the model was loaded with differs from its eager one by "
            f"{checked['loaded_difference']:.1e} of the largest output, beyond rounding",
            HeedmapWarning,
            stacklevel=3,
        )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """No dropout; each module's own mode is set back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[tuple[Path, bool]]:
    """The run's folder, and whether it is a temporary one, which then goes when something goes wrong."""
    if out is not None:
        yield Path(out), False
        return
    above = Path(tempfile.mkdtemp(prefix="heedmap-"))
    try:
        yield above / "run", True
    except BaseException:
        shutil.rmtree(above, ignore_errors=True)
        raise


def _silent(stage: str, done: int, total: int) -> None: ...
