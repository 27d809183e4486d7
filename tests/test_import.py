"""What an import brings in. Modules are counted, not seconds: a count means the same on every machine."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
import textwrap

import pytest

import heedmap

HEAVY = {"torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "matplotlib", "rich", "scipy"}
MODEL_LIBRARIES = {"torch", "transformers", "tokenizers"}

# rooms that open a run on a machine without a model library
WITHOUT_TORCH = ["errors", "measurements", "runs", "heads", "sets", "figures", "view"]


def modules_after(code: str, *, blocked: set[str] = frozenset()) -> set[str]:
    """Top-level modules and heedmap's own ones that a fresh process holds after ``code``; blocked ones cannot load."""
    program = f"""
        import sys
        for name in {sorted(blocked)!r}:
            sys.modules[name] = None
        {code}
        import json
        print(json.dumps([name for name, module in sys.modules.items() if module is not None]))
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    names = json.loads(result.stdout.splitlines()[-1])
    return {name for name in names if name.startswith("heedmap")} | {name.partition(".")[0] for name in names}


def submodules(package: str) -> list[str]:
    module = __import__(package, fromlist=["_"])
    paths = getattr(module, "__path__", None)
    if paths is None:
        return [package]
    return [package, *(found.name for found in pkgutil.walk_packages(paths, f"{package}."))]


def test_importing_heedmap_loads_nothing_but_its_door() -> None:
    loaded = modules_after("import heedmap")
    assert {name for name in loaded if name.startswith("heedmap")} == {"heedmap"}
    assert not loaded & HEAVY


def test_help_loads_click_and_no_command() -> None:
    code = "from heedmap.cli.main import main; main(['--help'])"
    loaded = modules_after(code)
    assert {name for name in loaded if name.startswith("heedmap")} == {
        "heedmap",
        "heedmap.cli",
        "heedmap.cli.main",
        "heedmap.errors",
    }
    assert not loaded & HEAVY


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_every_module_of_the_run_wing_loads_where_torch_is_missing(room: str) -> None:
    names = submodules(f"heedmap.{room}")
    loaded = modules_after(f"import {', '.join(names)}", blocked=MODEL_LIBRARIES)
    assert set(names) <= loaded
    assert not loaded & MODEL_LIBRARIES


@pytest.mark.parametrize("name", heedmap.__all__)
def test_every_public_name_loads_and_is_documented(name: str) -> None:
    value = getattr(heedmap, name)
    assert (value.__doc__ or "").strip()


def test_the_door_offers_exactly_its_public_names() -> None:
    assert set(heedmap.__all__) == set(heedmap._HOMES)
    assert set(heedmap.__all__) <= set(dir(heedmap))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        heedmap.atend  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import heedmap.measure; import heedmap",
        "import heedmap; heedmap.measure; import heedmap.measure",
        "from heedmap.measure import measure; import heedmap",
    ],
)
def test_a_module_of_the_same_name_never_hides_a_public_function(code: str) -> None:
    modules_after(f"{code}; assert heedmap.measure.__class__.__name__ == 'function'")
