"""Which installed fonts can draw a text, and what to say when none can.

matplotlib draws a letter that its font lacks as an empty box. Here every letter is looked up first: fonts that are
installed fill the gaps of the base font, and letters that no font has are named in a warning with the remedy.
"""

from __future__ import annotations

import unicodedata
import warnings
from dataclasses import dataclass
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from heedmap.errors import HeedmapWarning

BASE = "DejaVu Sans"  # comes with matplotlib, so it is always there

# tried before all others, so that one text is drawn in one face where a face that covers it is installed
_PREFERRED = (
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "NanumBarunGothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "Yu Gothic",
    "WenQuanYi Zen Hei",
    "Noto Sans Symbols2",
    "Symbola",
    "Segoe UI Symbol",
)
# faces that hold every letter as a box or as nothing, or only coloured bitmaps, which matplotlib cannot draw
# (matplotlib's own cm… and STIXSize… faces put other glyphs at a letter's place)
_NOT_LETTERS = ("last resort", "lastresort", "adobe blank", "color emoji", "apple color", "coloremoji")
_EAST_ASIAN = ("HANGUL", "CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC")


class MissingGlyphWarning(HeedmapWarning):
    """Letters that no installed font can draw; the text of the warning names the remedy."""


@dataclass(frozen=True)
class FontChoice:
    """Fonts for a text: ``families`` in the order of use, ``missing`` the letters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str]

    def can_draw(self, text: str) -> bool:
        """Whether every letter of the text has a glyph."""
        return not self.missing.intersection(text)


def fonts_for(texts: list[str]) -> FontChoice:
    """Choose installed fonts that together draw all letters of the texts, the base font first.

    Fonts installed after matplotlib last listed them are found too. Letters are single code points; white space and
    invisible characters need no glyph.
    """
    missing = {letter for text in texts for letter in text if _needs_glyph(letter)}
    missing -= _letters_in(BASE, missing)
    families = [BASE]
    for fresh in (False, True):
        if missing and (not fresh or _add_fonts_installed_since()):
            for family in _candidates():
                found = _letters_in(family, missing)
                if found:
                    families.append(family)
                    missing -= found
                if not missing:
                    break
    return FontChoice(tuple(families), frozenset(missing))


def warn_missing(missing: frozenset[str], drawn_instead: str) -> None:
    """Warn that letters have no glyph in any installed font, naming some of them, their script and the remedy."""
    letters = sorted(missing)
    named = " ".join(f"{letter} (U+{ord(letter):04X})" for letter in letters[:4])
    more = f" and {len(letters) - 4} more" if len(letters) > 4 else ""
    packages = sorted({_debian_package(letter) for letter in letters})
    warnings.warn(
        f"no installed font has the {'letter' if len(letters) == 1 else 'letters'} {named}{more}; {drawn_instead}. "
        f"Remedy: install a font that has them (Debian, Ubuntu: apt install {' '.join(packages)}; elsewhere put a "
        "Noto font file, .ttf or .otf, into your fonts folder), then draw again",
        MissingGlyphWarning,
        stacklevel=3,
    )


def _debian_package(letter: str) -> str:
    if unicodedata.name(letter, "").replace("-", " ").split(" ")[0] in _EAST_ASIAN:
        return "fonts-noto-cjk"
    return "fonts-noto-core" if unicodedata.category(letter)[0] in "LMN" else "fonts-symbola"


def _needs_glyph(letter: str) -> bool:
    """White space, controls, joiners and variation selectors are not drawn."""
    return unicodedata.category(letter) not in ("Zs", "Zl", "Zp", "Cc", "Cf", "Cs") and not (
        "\ufe00" <= letter <= "\ufe0f"
    )


def _candidates() -> list[str]:
    """Installed families, the preferred ones first, then by name."""
    families = {entry.name for entry in font_manager.fontManager.ttflist if not _is_trap(entry.name)} - {BASE}
    preferred = [family for family in _PREFERRED if family in families]
    return preferred + sorted(families.difference(preferred))


def _is_trap(family: str) -> bool:
    return any(word in family.lower() for word in _NOT_LETTERS) or family.startswith(("cm", "STIXSize"))


def _face(family: str) -> FT2Font | None:
    """The family's upright file nearest to the regular weight, which is what plain text is drawn with."""
    weight = font_manager.weight_dict
    entries = [entry for entry in font_manager.fontManager.ttflist if entry.name == family]
    ranked = sorted(
        entries,
        key=lambda e: (
            e.style != "normal",
            abs((weight.get(e.weight, 400) if isinstance(e.weight, str) else e.weight) - 400),
        ),
    )
    return _open(ranked[0].fname) if ranked else None


@cache
def _open(path: str) -> FT2Font | None:
    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):  # listed, but removed or damaged since
        return None
    return font if font.scalable else None


def _letters_in(family: str, letters: set[str]) -> set[str]:
    face = _face(family)
    return set() if face is None else {letter for letter in letters if face.get_char_index(ord(letter)) != 0}


def _add_fonts_installed_since() -> bool:
    """Add font files that matplotlib's cached list does not hold yet; whether there were any."""
    listed = {entry.fname for entry in font_manager.fontManager.ttflist}
    added = False
    for path in sorted(set(font_manager.findSystemFonts()) - listed):
        try:
            font_manager.fontManager.addfont(path)
        except (RuntimeError, OSError, ValueError):  # a damaged file or a bitmap font, of no use here
            continue
        added = True
    return added
