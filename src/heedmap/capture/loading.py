"""From a folder, or a GGUF file in one, to a model and its tokenizer: safetensors weights and known code only."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from heedmap.capture import converted
from heedmap.capture.failures import FAILURES
from heedmap.capture.quiet import quiet
from heedmap.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_T = TypeVar("_T")

_TOKENIZER_FILES = ("tokenizer.json", "tekken.json")
_TOKENIZER_SUFFIXES = (".model", ".spm", ".tiktoken")
_LOAD_YOURSELF = "load it yourself and pass the model: look(text, model, tokenizer)"


@dataclass(frozen=True)
class Loaded:
    """A model with the names of its weights that no file held, so that they were drawn at random."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    initialised: list[str]


def load_folder(folder: Path, name: str, tokenizer: Any, dtype: torch.dtype | str | None) -> Loaded:
    """Load a folder as ``save_pretrained`` writes it; ``tokenizer`` is one in memory, or None for the folder's own."""
    import transformers

    _check_folder(folder, name)
    config = attempt(
        name, "config.json", lambda: transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    )
    found = tokenizer if tokenizer is not None else load_tokenizer(folder, name)
    settings = {"config": config, "use_safetensors": True, "dtype": dtype if dtype is not None else "auto"}
    model, initialised = _load(name, _class_of(config), folder, settings)
    return Loaded(model, found, initialised)


def load_gguf(path: Path, name: str, tokenizer: Any, dtype: torch.dtype | str | None) -> Loaded:
    """Load a GGUF file; its quantised weights become ``dtype`` (None: float32), and are kept so for the next time."""
    missing = [package for package in ("gguf", "accelerate") if importlib.util.find_spec(package) is None]
    if missing:
        raise ModelError(
            "models",
            expected=f"the packages gguf and accelerate, to read {path.name}",
            got=f"no {' and no '.join(missing)}",
            do='pip install "heedmap[gguf]"',
        )
    copy = attempt(name, path.name, lambda: converted.copy_of(path, dtype if dtype is not None else torch.float32))
    if converted.is_whole(copy):
        try:
            return _from_copy(copy, path, name, tokenizer)
        except ModelError:  # damaged since; the file it was made from still tells all
            shutil.rmtree(copy, ignore_errors=True)
    loaded = _convert(path, name, tokenizer, dtype)
    if tokenizer is None and not loaded.initialised:
        converted.keep(loaded.model, loaded.tokenizer, copy)
    return loaded


def _from_copy(copy: Path, path: Path, name: str, tokenizer: Any) -> Loaded:
    loaded = load_folder(copy, name, tokenizer, None)
    loaded.model.config._name_or_path = os.fspath(path.parent)  # where it comes from, as when it is read from there
    loaded.model.name_or_path = os.fspath(path.parent)
    return loaded


def _convert(path: Path, name: str, tokenizer: Any, dtype: torch.dtype | str | None) -> Loaded:
    import transformers

    here = {"gguf_file": path.name, "trust_remote_code": False}
    config = attempt(name, path.name, lambda: transformers.AutoConfig.from_pretrained(path.parent, **here))
    found = tokenizer if tokenizer is not None else load_tokenizer(path, name)
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        kind: Any = transformers.AutoModelForCausalLM
    elif type(config) in transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        kind = transformers.AutoModelForSeq2SeqLM
    else:
        kind = transformers.AutoModel
    settings = {"config": config, "gguf_file": path.name, "dtype": dtype if dtype is not None else torch.float32}
    model, initialised = _load(name, kind, path.parent, settings)
    return Loaded(model, found, initialised)


def load_tokenizer(path: Path, name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or a GGUF file; never the empty one that transformers makes where files are missing."""
    import transformers

    if path.is_file():
        return attempt(
            name,
            f"the tokenizer in {path.name}",
            lambda: transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name),
        )
    tokenizer = attempt(
        name, "the tokenizer", lambda: transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    )
    needed = {file for file in tokenizer.vocab_files_names.values() if file}
    present = {file.name for file in path.iterdir()}
    if (
        needed
        and not present & {*needed, *_TOKENIZER_FILES}
        and not any(file.endswith(_TOKENIZER_SUFFIXES) for file in present)
    ):
        raise ModelError(
            "models",
            expected=f"a tokenizer in '{name}' ({', '.join(sorted(needed))})",
            got="none of its files",
            do="save it there with tokenizer.save_pretrained(folder), or pass tokenizer=",
        )
    return tokenizer


def is_gguf(path: Path) -> bool:
    """Whether a file begins as every GGUF file does."""
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def _check_folder(folder: Path, name: str) -> None:
    files = attempt(name, "the folder", lambda: {path.name for path in folder.iterdir()})
    if "config.json" not in files:
        adapter = "an adapter only (adapter_config.json)" if "adapter_config.json" in files else "no config.json"
        raise ModelError(
            "models",
            expected=f"a model in '{name}', as save_pretrained writes it",
            got=adapter,
            do="merge the adapter into its model first, or load both yourself and pass the model"
            if "adapter_config.json" in files
            else None,
        )
    _check_config(folder, name)
    if any(file.endswith((".safetensors", ".safetensors.index.json")) for file in files):
        return
    pickles = sorted(file for file in files if file.endswith((".bin", ".pt", ".pth", ".ckpt", ".pkl")))
    raise ModelError(
        "models",
        expected=f"weights in '{name}' as model.safetensors",
        got=f"{pickles[0]}, a pickle, which can run any code on loading" if pickles else "no weights",
        do=f"save them as safetensors (model.save_pretrained), or {_LOAD_YOURSELF}" if pickles else None,
    )


def _check_config(folder: Path, name: str) -> None:
    try:
        config: object = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        got = None if isinstance(config, dict) else f"{str(config)[:40]!r}"
    except OSError as error:
        got = error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        got = str(error) if isinstance(error, ValueError) else "JSON nested too deeply"
    if got is not None:
        raise ModelError("models", expected=f"a config.json with a JSON object in '{name}'", got=got)


def _class_of(config: Any) -> Any:
    """The class that the weights were saved from, so that none is missing and none left over; else the bare model."""
    import transformers

    for architecture in config.architectures or []:
        kind = getattr(transformers, architecture, None)
        if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel):
            return kind
    return transformers.AutoModel


def _load(name: str, kind: Any, folder: Path, settings: dict[str, Any]) -> tuple[PreTrainedModel, list[str]]:
    settings = {**settings, "output_loading_info": True, "local_files_only": True}
    model, report = attempt(name, "the weights", lambda: kind.from_pretrained(folder, **settings))
    return model.eval(), sorted(report["missing_keys"])


def attempt(name: str, what: str, load: Callable[[], _T]) -> _T:
    """Call transformers without its chatter; whatever fails there becomes one line."""
    try:
        with quiet():
            return load()
    except FAILURES as error:
        message = " ".join(str(error).split())
        if not message or isinstance(error, LookupError | TypeError | AttributeError | ArithmeticError):
            message = f"{type(error).__name__} {message}".strip()
        if "ignore_mismatched_sizes" in message:  # what it points to was a report that nobody saw
            message = "their shapes are not those that its config.json asks for"
        if "trust_remote_code" in message or "custom code" in message:
            raise ModelError(
                "models",
                expected=f"a model that this version of transformers knows, in '{name}'",
                got="one that brings its own Python code",
                do=f"read that code; if you trust it, {_LOAD_YOURSELF}",
            ) from error
        raise ModelError(
            "models",
            expected=f"to load '{name}'",
            got=f"a failure in {what}: {message[:240]}{'…' if len(message) > 240 else ''}",
        ) from error


def looks_like_path(name: str) -> bool:
    """Whether a name that is no file and no folder was meant as one."""
    return name.startswith((".", "~", "/", os.sep)) or name.endswith(".gguf") or "\\" in name or name.count("/") > 1
