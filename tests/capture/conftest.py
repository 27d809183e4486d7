"""Tiny models of many attention families."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@pytest.fixture(scope="session")
def families() -> ModuleType:
    """The module ``families.py``: ``families.FAMILIES`` and ``families.build(name)``."""
    spec = spec_from_file_location("families", Path(__file__).with_name("families.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def family(families: ModuleType) -> Callable[..., PreTrainedModel]:
    """``family("gemma2")``: a tiny model of that family, in eval mode; keywords change its configuration."""
    return families.build
