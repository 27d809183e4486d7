"""How the terminal words things: texts on one line, sizes, times, numbers, paths."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from rich.text import Text


def printable(text: str) -> str:
    """A text on one line, without the characters that command a terminal or turn the reading direction."""
    spaced = " ".join(text.split())
    return "".join("�" if unicodedata.category(letter) in ("Cc", "Cs") else "" if _is_format(letter) else letter for
                   letter in spaced)  # fmt: skip


def _is_format(letter: str) -> bool:
    return unicodedata.category(letter) == "Cf" and letter not in "\u200c\u200d"


def short_path(path: Path) -> str:
    """A path below the current folder without that folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def cut(text: str, width: int) -> str:
    """A text of at most so many columns of a terminal."""
    line = Text(text)
    line.truncate(width, overflow="ellipsis")
    return line.plain


def counted(count: int, noun: str) -> str:
    """`1 text`, `1,200 texts`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def span(numbers: list[int]) -> str:
    """`3` for equal numbers, else `3-5`."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def seconds_text(seconds: float) -> str:
    """`0.21 s`, `3.4 s`, `12 s`, `2 min 5 s`."""
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


def bytes_text(count: int) -> str:
    """`41.5 kB`, in powers of 1,000."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 100 or unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def scientific(number: float | None) -> str:
    """`6.0e-08`."""
    return "not a number" if number is None else "0" if number == 0 else f"{number:.1e}"
