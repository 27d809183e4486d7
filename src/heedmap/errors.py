"""The one family of errors: each says where, what was expected, what came instead, and what to do about it."""

from __future__ import annotations


class HeedmapError(Exception):
    """An error the user can act on; its text is one line: ``[where] expected …, got …; do …``.

    ``where`` names the part of heedmap that noticed (``look``, ``masks.sliding_window``, ``open_run``), ``expected``
    and ``got`` say what was wanted and what came, ``do`` names the way out where there is one.
    """

    def __init__(self, where: str, *, expected: str, got: str, do: str | None = None) -> None:
        self.where = where
        self.expected = expected
        self.got = got
        self.do = do
        super().__init__(str(self))

    def __str__(self) -> str:
        message = f"[{self.where}] expected {self.expected}, got {self.got}"
        if self.do is not None:
            message += f"; {self.do}"
        return _visible(" ".join(message.split()))  # one line, whatever a value's own text holds

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.where, self.expected, self.got, self.do)


def _visible(text: str) -> str:
    """A text whose characters that command a terminal, turn the reading direction or are none are written out."""
    return "".join(
        letter if letter.isprintable() or letter in "\u200c\u200d" else repr(letter)[1:-1]  # joiners belong to words
        for letter in text
    )


def _rebuild(kind: type[HeedmapError], where: str, expected: str, got: str, do: str | None) -> HeedmapError:
    """Unpickle an error: its arguments are keywords, which ``Exception`` does not keep."""
    return kind(where, expected=expected, got=got, do=do)


class InputError(HeedmapError, ValueError):
    """An argument, a shape or a text that cannot be used as it is."""


class ModelError(HeedmapError):
    """A model that is unknown, cannot be loaded, or failed."""


class UnsupportedError(HeedmapError, NotImplementedError):
    """A call that is well formed but that this kernel or architecture cannot do."""


class RunError(HeedmapError):
    """A run folder that is missing, truncated, foreign, written by a newer heedmap, or in the way."""


class StorageError(HeedmapError, OSError):
    """A disk that is full or cannot be written to."""

    def __str__(self) -> str:
        return HeedmapError.__str__(self)  # OSError would print its errno form


class HeedmapWarning(UserWarning):
    """Something the user should know about, which does not stop the work; its text is one line."""
