"""What transformers, its readers and its config checks raise on files and configs that are not as they should be."""

from __future__ import annotations

import struct

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

FAILURES = (
    OSError, ValueError, ArithmeticError, RuntimeError, LookupError, TypeError, AttributeError, ImportError,
    AssertionError, struct.error, SafetensorError, StrictDataclassError,
)  # fmt: skip


def short(error: BaseException, most: int = 200) -> str:
    """What an error says, on one line of at most so many characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else text[: most - 1] + "…"
