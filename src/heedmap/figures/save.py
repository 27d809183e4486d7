"""Writing a picture: PNG or SVG by the name's suffix, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from heedmap.errors import InputError, StorageError

SUFFIXES = (".png", ".svg")


def check_picture_path(path: str | os.PathLike[str]) -> Path:
    """The path of a picture to be written, once its kind is known and its place can be written to.

    Raises ``InputError``, ``StorageError``. Cheap, so that a command can ask before it starts its work.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            "figure",
            expected="a file name that ends in .png or .svg",
            got=repr(str(path)),
            do=f"write to {path.stem or 'picture'}.png or {path.stem or 'picture'}.svg",
        )
    try:
        if path.is_dir():
            raise InputError("figure", expected="a file to write the picture to", got=f"the folder {str(path)!r}")
        above = next(place for place in path.absolute().parents if place.exists())
    except OSError as problem:
        raise _no_place(path, problem.strerror or str(problem)) from problem
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise _no_place(path, f"{above}, which {'may not be written to' if above.is_dir() else 'is a file'}")
    return path


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 160) -> Path:
    """Write the figure as PNG or SVG, by the suffix of the path; missing folders are made.

    The file appears whole or not at all, and the same figure gives the same bytes. ``dpi`` is for PNG and for the
    pixel parts of an SVG. Raises ``InputError`` for another suffix, ``StorageError`` where nothing can be written.
    """
    path = check_picture_path(path)
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": "heedmap"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(descriptor)
        partial = Path(name)
        try:
            with rc_context({"svg.hashsalt": "heedmap", "svg.fonttype": "path"}):
                figure.savefig(partial, format=kind, dpi=dpi, metadata=metadata)
            partial.chmod(0o666 & ~_umask())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise _no_place(path, f"{problem.strerror or problem}") from problem
    return path


def _no_place(path: Path, why: str) -> StorageError:
    return StorageError(
        "figure",
        expected="a place to write the picture to",
        got=f"{why} ({path})",
        do="choose another file name",
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
