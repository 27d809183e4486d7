"""`look`: from a text and a model to a run, the folder that keeps what every head attends to."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from heedmap.attention.inputs import AttentionInputs
from heedmap.capture.account import implementation, model_entry, peak_bytes, versions
from heedmap.capture.models import resolve
from heedmap.capture.passages import Passage, locate, stretches
from heedmap.capture.selection import Selection
from heedmap.capture.selfcheck import self_check
from heedmap.capture.session import Session
from heedmap.capture.taking import Progress, Taker
from heedmap.capture.texts import Texts
from heedmap.capture.watch import opened
from heedmap.errors import HeedmapWarning
from heedmap.runs.reader import Run
from heedmap.runs.writer import RunWriter
from heedmap.statistics.catalogue import asked_names, choose


def look(
    text: str,
    model: str | os.PathLike[str] | PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    text_pair: str | None = None,
    target: str | None = None,
    generate: int | None = None,
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
    looked at with its encoder, or with both where there is a `target` or something to `generate`. The run checks
    itself against the model's own eager attention.

        run = look("The cat sat on the mat because it was tired", out="runs/cat")
        run.weights(5, 11)      # [tokens, tokens], exact

    Args:
        text: the text; with `text_pair` the first of two.
        model: a model in memory, a packaged model's name, a folder, a GGUF file or a hub id; None for the default.
        tokenizer: where the model in memory does not tell where its tokenizer comes from.
        text_pair: a second text, for models that read pairs.
        target: for an encoder–decoder, the text that its decoder reads: a translation, a summary.
        generate: let the model go on with its most likely tokens, this many at most. Each token has the row of what it
            read when the next one was chosen; the last one has read nothing yet.
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
        texts = Texts(loaded, text, text_pair, target, generate, max_tokens)
        passages = {} if spans is None else locate(spans, texts.source)
        tell("tokenise", 1, 1)
        at_tokens = time.perf_counter()
        with writer, _evaluating(loaded.model):
            taken = Taker(writer, tell, decoding=texts.decoding)
            known = partial(texts.known, passages)
            session = Session(loaded.model, selection, names, keep_inputs, taken, known=known)
            attention = implementation(session)
            with opened(session, joined=True), torch.no_grad():
                viewed = texts.run(session, taken, tell)
            read = texts.read
            writer.source(read.source.text, text_pair if read.target is None else read.target.text)
            writer.tokens(read.columns())
            at_forward = time.perf_counter()
            tell("check", 0, 1)
            checked = self_check(loaded.model, viewed.forward, viewed.length, selection, taken.windows)
            tell("check", 1, 1)
            _warn(checked)
            tell("write", 0, 1)
            run = writer.finish(
                {
                    "command": command,
                    "model": model_entry(loaded, attention),
                    "text": read.meta(),
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


def _checked_names(statistics: str | Iterable[str], *, with_spans: bool) -> list[str]:
    """The names of statistics, checked before a model is loaded; spans that are named are measured."""
    names = asked_names(statistics)
    if with_spans and not {"all", "span_mass"} & set(names):
        names.append("span_mass")
    one, mark = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, dtype=torch.bool)
    spans = {"span": mark} if with_spans else None
    choose(names, AttentionInputs(one, one, one, token_ids=mark.long(), classes={"class": mark}, spans=spans))
    return names


def _warn(checked: dict[str, Any] | None) -> None:
    if checked is None:
        warnings.warn(
            "this model has no eager attention to compare with: the run could not check itself",
            HeedmapWarning,
            stacklevel=3,
        )
        return
    if not checked["passed"]:
        what = (
            f"weights of head {checked['layer']}.{checked['head']} differ from the model's own eager attention by "
            f"{checked['max_abs_error']:.1e}, budget {checked['budget']:.1e}"
            if not checked["max_abs_error"] <= checked["budget"]
            else "the model's output while it is looked at differs from its eager one by "
            f"{checked['path_difference']:.1e} of the largest"
        )
        warnings.warn(f"the self-check failed: {what}: do not trust this run", HeedmapWarning, stacklevel=3)
    if not checked["loaded_agrees"]:
        warnings.warn(
            "the attention implementation that the model was loaded with differs from its eager one by "
            f"{checked['loaded_difference']:.1e} of the largest output, beyond rounding",
            HeedmapWarning,
            stacklevel=3,
        )
    if not checked["output_finite"]:
        warnings.warn(
            "the model's own output holds NaN or infinity: its weights may be damaged, or its dtype too narrow",
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
