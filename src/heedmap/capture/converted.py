"""Weights of GGUF files, converted once: to read a quantised file takes half a minute, to read its copy a second.

A copy lies in the cache folder under the hash of the file it came from, so a changed file never meets an old copy. It
is a plain folder of safetensors and JSON, as ``save_pretrained`` writes it; deleting it costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedmap.capture.quiet import quiet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FORM = 1
"""Raised when what is kept changes, so that older copies are not read."""
WEIGHTS = "model.safetensors"


def cache_folder() -> Path:
    """Where heedmap keeps what it can make again: ``$XDG_CACHE_HOME/heedmap``, or ``~/.cache/heedmap``."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".cache") / "heedmap"


def sha256(paths: list[Path]) -> str:
    """The SHA-256 of files read one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def copy_of(path: Path, dtype: torch.dtype | str, cache: Path | None = None) -> Path:
    """The folder for the copy of a GGUF file in ``dtype``, as this version of transformers converts it."""
    import transformers

    about = [FORM, sha256([path]), str(dtype).removeprefix("torch."), transformers.__version__]
    name = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    return (cache or cache_folder()) / "converted" / f"{path.stem[:80]}-{name}"


def is_whole(place: Path) -> bool:
    """Whether a copy is there; it gets its name only when all of it is written."""
    return (place / WEIGHTS).is_file() and (place / "config.json").is_file()


def keep(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, place: Path) -> bool:
    """Write a converted model to ``place``; False, and nothing left behind, where the disk has no room or no right.

    A tokenizer that does not come back from its files as it was is not kept, and then neither is the model: a copy
    must never give other tokens than the file.
    """
    partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        if shutil.disk_usage(partial).free < 2 * model.get_memory_footprint():
            return False
        with quiet():
            _write(model, partial)
            tokenizer.save_pretrained(partial)
            if not is_whole(partial) or _content(_reloaded(partial)) != _content(tokenizer):
                return False
        for file in partial.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        if place.exists() and not is_whole(place):
            shutil.rmtree(place)
        partial.replace(place)
    except OSError:  # no room, no right, or another process was first
        return is_whole(place)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial)
    return True


def _write(model: PreTrainedModel, folder: Path) -> None:
    """As ``save_pretrained``, which refuses a model that came from GGUF although its weights are plain by now."""
    from safetensors.torch import save_model

    config = copy.deepcopy(model.config)
    config.__dict__.pop("quantization_config", None)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    save_model(model, str(folder / WEIGHTS), metadata={"format": "pt"})


def _reloaded(folder: Path) -> PreTrainedTokenizerBase:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


def _content(tokenizer: Any) -> tuple[Any, ...]:
    """All that decides which tokens a text gets."""
    backend = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else sorted(tokenizer.get_vocab().items())
    special = sorted((str(at), str(token)) for at, token in tokenizer.added_tokens_decoder.items())
    return backend, special, tokenizer.all_special_ids, tokenizer.chat_template, tokenizer.padding_side
