"""Token labels as a picture can draw them: short enough, and only letters that some installed font has."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from heedmap.figures.fonts import FontChoice, fonts_for

UNKNOWN = "\ufffd"  # what stands for a letter that no font has


@dataclass(frozen=True)
class Wording:
    """Texts to draw: the fonts that draw them, one label per token, the title, and the letters left out of both.

    A label with a letter that no font has is the token's number, ``#7``; in the title such a letter is ``�``,
    and where most are, the title says so instead.
    """

    fonts: FontChoice
    labels: list[str]
    title: str

    @property
    def missing(self) -> frozenset[str]:
        return self.fonts.missing


def wording(labels: list[str], title: str, *, widest: int = 14, positions: list[int] | None = None) -> Wording:
    """Make labels and a title drawable; a label takes at most ``widest`` narrow letters' room.

    ``positions`` are the labels' tokens, where those are not simply counted from 0.
    """
    clean = [shorten(_plain(label), widest) for label in labels]
    clean_title = " ".join(_plain(title).split())
    fonts = fonts_for([*clean, clean_title])
    numbers = range(len(clean)) if positions is None else positions
    drawn = [label if fonts.can_draw(label) else f"#{number}" for number, label in zip(numbers, clean, strict=True)]
    shown = "".join(UNKNOWN if letter in fonts.missing else letter for letter in clean_title)
    if 3 * shown.count(UNKNOWN) > len(shown):
        shown = "a text in letters that no installed font has"
    return Wording(fonts, drawn, shown)


def shorten(text: str, width: int) -> str:
    """The text cut to a width, with an ellipsis where something is left out; wide East Asian letters count twice."""
    if display_width(text) <= width:
        return text
    kept, used = "", 1
    for letter in text:
        used += display_width(letter)
        if used > width:
            break
        kept += letter
    return kept.rstrip() + "…"


def display_width(text: str) -> int:
    """Width in narrow letters: East Asian wide letters count two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _plain(text: str) -> str:
    """Composed letters, as fonts hold them; controls, which no font draws, become spaces."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") else letter for letter in composed)
