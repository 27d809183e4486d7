"""Where the text of a command comes from, and how the run of it is called."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import click

from heedmap.errors import InputError

WHERE = "look"
_BYTE_ORDER_MARKS = {  # the longer ones first: that of UTF-16 begins one of UTF-32
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_LONGEST_NAME = 24


@dataclass(frozen=True)
class Source:
    """A text to look at, and the words that name its run."""

    text: str
    name: str


def read_source(text: str | None, file: str | None) -> Source:
    """The text itself, or that of a file (``-``: standard input), without its byte order mark and last line's end.

    Line ends of every system become ``\\n``. Raises ``InputError`` where there is no text, or two, or none that can be
    read as UTF-8.
    """
    if text is not None and file is not None:
        raise InputError(
            WHERE, expected="a text or --file, one of them", got="both", do="leave out one; --pair takes a second text"
        )
    if file is not None:
        content = _lines(_decode(_read(file), "standard input" if file == "-" else file))
        _check(content, "standard input" if file == "-" else file)
        regular = file != "-" and Path(file).is_file()
        return Source(content, slug(Path(file).stem if regular else content))
    if text is None:
        raise InputError(
            WHERE,
            expected="a text to look at",
            got="none",
            do='try: heedmap look "The cat sat on the mat because it was tired", or --file FILE (- for standard input)',
        )
    content = _lines(text)
    _check(content, "the text")
    return Source(content, slug(content))


def read_pair(text: str | None) -> str | None:
    """The second text of a pair, held to the same rules."""
    if text is None:
        return None
    content = _lines(text)
    _check(content, "the text of --pair")
    return content


def read_target(text: str | None) -> str | None:
    """The text for a decoder, held to the same rules."""
    if text is None:
        return None
    content = _lines(text)
    _check(content, "the text of --target")
    return content


def slug(text: str) -> str:
    """A short folder name from the first words of a text, in its own script: ``the-cat-sat-on-the-mat``."""
    words: list[str] = []
    for word in _words(text):
        if len("-".join([*words, word])) > _LONGEST_NAME:
            break
        words.append(word)
    first = next(iter(_words(text)), "text")
    return "-".join(words) or first[:_LONGEST_NAME]


def run_folder(base: Path, source: Source, model: str | None, pair: str | None) -> Path:
    """Where a run goes when nobody says: ``base/<slug>``, with the model's name if it is not the default one.

    A run of the same text there is replaced; where another text or a stranger's folder has the name, ``-2``, ``-3`` …
    is added.
    """
    from heedmap.runs.manifest import is_run, load
    from heedmap.runs.schema import RUN_JSON

    name = source.name
    if pair is not None:
        name += f"+{slug(pair)}"
    if model is not None:
        name += f".{slug(Path(model).name)}"
    sha256 = hashlib.sha256(source.text.encode()).hexdigest()
    count = 1
    while True:
        path = base / (name if count == 1 else f"{name}-{count}")
        if not path.exists() or (is_run(path) and load(path / RUN_JSON).get("text", {}).get("sha256") == sha256):
            return path
        count += 1


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFC", text[:400]).lower()
    return "".join(letter if letter.isalnum() or unicodedata.combining(letter) else " " for letter in plain).split()


def _read(file: str) -> bytes:
    if file == "-":
        if sys.stdin is None:
            raise InputError(WHERE, expected="a text on standard input", got="none, it is closed")
        if sys.stdin.isatty():
            click.echo("reading the text from the keyboard; end it with Ctrl-D on a line of its own", err=True)
        return sys.stdin.buffer.read()
    path = Path(file)
    try:
        if path.is_dir():
            raise InputError(WHERE, expected="a text file", got=f"the folder {file}", do="name a file in it")
        return path.read_bytes()
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(
            WHERE, expected="a text file", got=f"{file}, which does not exist", do="check the name"
        ) from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise InputError(WHERE, expected="a file that can be read", got=f"{file}: {reason}") from problem


def _decode(content: bytes, name: str) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
    try:
        if encoding is None:
            return content.decode("utf-8-sig")
        found = f"{encoding} in {name}"
    except UnicodeDecodeError as problem:
        if b"\0" in content:
            raise InputError(
                WHERE, expected="text in UTF-8", got=f"data of another kind in {name}", do="name a text file"
            ) from problem
        found = f"byte {content[problem.start]:#04x} at place {problem.start:,} of {name}"
    raise InputError(
        WHERE,
        expected="text in UTF-8",
        got=found,
        do=f"convert it: iconv -f {encoding or 'LATIN1'} -t UTF-8 FILE > NEW",
    )


def _lines(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def _check(text: str, name: str) -> None:
    if not text.strip():
        raise InputError(WHERE, expected="a text with at least one word", got=f"only white space in {name}" if text else
                         f"nothing in {name}")  # fmt: skip
    if "\0" in text:
        raise InputError(
            WHERE,
            expected="text",
            got=f"a NUL character at place {text.index(chr(0)):,} of {name}",
            do="take it out; files that hold NUL are mostly binary, or UTF-16",
        )
    broken = next((place for place, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
    if broken is not None:
        raise InputError(
            WHERE,
            expected="text in UTF-8",
            got=f"half a character at place {broken:,} of {name}",
            do="check the encoding of your terminal or file",
        )
