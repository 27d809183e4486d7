"""What a run tells about how it came to be: the model, versions, memory."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import torch
from transformers import PreTrainedModel

from heedmap.capture.models import LoadedModel
from heedmap.capture.session import Session
from heedmap.capture.watch import configurations
from heedmap.machine import peak_memory


def implementation(session: Session) -> str:
    """The implementation that the model was loaded with; several of them joined."""
    names = dict.fromkeys(str(config._attn_implementation) for config in configurations(session))
    return "+".join(names)


def model_entry(loaded: LoadedModel, attention: str) -> dict[str, Any]:
    """What `run.json` says about the model; `attention` is the implementation that it was loaded with."""
    config = loaded.model.config
    return {
        "name": loaded.name,
        "revision": loaded.revision,
        "class": type(loaded.model).__name__,
        "dtype": str(loaded.model.dtype).removeprefix("torch."),
        "layers": getattr(config.get_text_config(), "num_hidden_layers", None),
        "initialised": len(loaded.initialised),
        "attention": attention,
    }


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    names = ("numpy", "torch", "transformers", "tokenizers")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def peak_bytes(model: PreTrainedModel) -> int:
    """The most memory that this process has held so far: on the GPU where the model is there, else in RAM."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_memory()
