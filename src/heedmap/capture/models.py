"""From a name to a model: a packaged one, a folder, a GGUF file, a model of the Hugging Face hub, or one in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from heedmap.capture.hub import cached_folder, folder_of
from heedmap.capture.loading import Loaded, attempt, is_gguf, load_folder, load_gguf, load_tokenizer, looks_like_path
from heedmap.capture.packaged import DEFAULT, PACKAGED, PackagedModel, installed, parts_of, weights_of
from heedmap.errors import InputError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["LoadedModel", "installed", "resolve"]


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be looked at.

    ``name`` is what to call it, ``revision`` the commit on the hub or ``sha256:…`` of packaged weights, ``source`` one
    of packaged, folder, gguf, hub, memory; ``initialised`` names the weights that no file held and that were drawn at
    random on loading: with any of those in its attention, a model shows nothing.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    revision: str | None
    source: str
    initialised: list[str]


def resolve(
    name: str | os.PathLike[str] | PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    dtype: torch.dtype | str | None = None,
) -> LoadedModel:
    """Load a model by name, in evaluation mode, with its tokenizer.

    ``name`` is None for the packaged default, a packaged model's name (``minilm``, ``smollm2``, ``gemma3-270m``), a
    folder, a ``.gguf`` file, a model id of the hub (its cache is looked at first), or a model in memory, which is left
    as it is; a wrapper around one (PEFT, SentenceTransformer) is looked into. ``tokenizer`` replaces the model's own.
    ``dtype`` is that of the weights; None keeps what is stored, float32 for GGUF.

    Only safetensors and GGUF weights are read and no code of a model's author is run: what needs more must be loaded
    by hand and passed as a model. Raises ModelError where the model cannot be found or loaded, InputError for a model
    in memory without a tokenizer.
    """
    _check_tokenizer(tokenizer)
    if name is None:
        name = DEFAULT
    if isinstance(name, torch.nn.Module):
        return _in_memory(name, tokenizer, dtype)
    if not isinstance(name, str | os.PathLike):
        raise InputError("models", expected="a model's name, folder or file, or a model", got=type(name).__name__)
    text = os.fspath(name)
    if not text.strip():
        raise ModelError("models", expected="a model's name, folder or file", got="an empty name")
    if text in PACKAGED:
        return _packaged(PACKAGED[text], tokenizer, dtype)
    path = Path(text).expanduser()
    is_file, is_folder = attempt(text[:80], "the name", lambda: (path.is_file(), path.is_dir()))
    if is_file:
        return _file(path, text, tokenizer, dtype)
    if is_folder:
        return _folder(path, text, tokenizer, dtype)
    if isinstance(name, os.PathLike) or looks_like_path(text):
        raise ModelError("models", expected="a model's folder or GGUF file", got=f"nothing at '{text}'")
    folder, revision = folder_of(text)
    return _named(load_folder(folder, text, tokenizer, dtype), text, revision, "hub")


def _check_tokenizer(tokenizer: object) -> None:
    if tokenizer is None:
        return
    from transformers import PreTrainedTokenizerBase

    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(
            "models",
            expected="a tokenizer of transformers",
            got=type(tokenizer).__name__,
            do="give AutoTokenizer.from_pretrained(name)",
        )


def _packaged(
    model: PackagedModel, tokenizer: PreTrainedTokenizerBase | None, dtype: torch.dtype | str | None
) -> LoadedModel:
    weights = weights_of(model)
    load = load_gguf if model.gguf else load_folder
    loaded = load(weights if model.gguf else weights.parent, model.name, tokenizer, dtype)
    return _named(loaded, model.name, f"sha256:{model.sha256}", "packaged")


def _file(
    path: Path, text: str, tokenizer: PreTrainedTokenizerBase | None, dtype: torch.dtype | str | None
) -> LoadedModel:
    if not attempt(text, "the file", lambda: is_gguf(path)):
        raise ModelError(
            "models",
            expected=f"a GGUF file in '{text}'",
            got="a file of another kind",
            do="for safetensors weights name their folder",
        )
    return _named(load_gguf(path, text, tokenizer, dtype), path.name, None, "gguf")


def _folder(
    path: Path, text: str, tokenizer: PreTrainedTokenizerBase | None, dtype: torch.dtype | str | None
) -> LoadedModel:
    ggufs = sorted(path.glob("*.gguf"))
    if ggufs and not (path / "config.json").exists():
        if len(ggufs) > 1:
            names = ", ".join(file.name for file in ggufs)
            raise ModelError("models", expected=f"one model in '{text}'", got=names, do="name one of these files")
        return _file(ggufs[0], os.fspath(ggufs[0]), tokenizer, dtype)
    return _named(load_folder(path, text, tokenizer, dtype), path.resolve().name, None, "folder")


def _named(loaded: Loaded, name: str, revision: str | None, source: str) -> LoadedModel:
    return LoadedModel(loaded.model, loaded.tokenizer, name, revision, source, loaded.initialised)


def _in_memory(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase | None,
    dtype: torch.dtype | str | None,
) -> LoadedModel:
    from transformers import PreTrainedModel

    from heedmap.capture.watch import unwrap

    model = unwrap(model)
    kind = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise InputError(
            "models",
            expected="one Hugging Face model (PreTrainedModel)",
            got=f"{kind}, which holds several",
            do="pass the one to look at",
        )
    if dtype is not None:
        raise InputError(
            "models", expected="dtype=None for a model in memory", got=f"{dtype}", do="use model.to(dtype)"
        )
    origin = str(getattr(model, "name_or_path", "") or "")
    found = tokenizer if tokenizer is not None else _tokenizer_of(origin, kind)
    return LoadedModel(model, found, _name_of(origin) or kind, None, "memory", [])


def _name_of(origin: str) -> str:
    """What to call a model in memory, from where it was loaded: a hub id, a packaged name, or its folder's name."""
    for model in PACKAGED.values():
        if any(Path(origin) == part.parent for part in parts_of(model) or []):
            return model.name
    return Path(origin).name if Path(origin).is_absolute() else origin


def _tokenizer_of(origin: str, kind: str) -> PreTrainedTokenizerBase:
    """The tokenizer that lies where a model in memory was loaded from."""
    folder = Path(origin) if origin and Path(origin).is_dir() else cached_folder(origin)
    missing = InputError("models", expected=f"a tokenizer for this {kind}", got="none", do="pass tokenizer=")
    if folder is None:
        raise missing
    try:
        return load_tokenizer(folder, origin)
    except ModelError as error:
        raise missing from error
