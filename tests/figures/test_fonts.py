from __future__ import annotations

from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from heedmap.figures import fonts
from heedmap.figures.fonts import BASE, MissingGlyphWarning, fonts_for, warn_missing
from heedmap.figures.labels import UNKNOWN, display_width, shorten, wording


def make_font(path: Path, family: str, letters: str) -> Path:
    """A font file with a square for each letter."""
    names = [".notdef", *(f"letter{index}" for index in range(len(letters)))]
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for point in ((100, 700), (800, 700), (800, 0)):
        pen.lineTo(point)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): names[index + 1] for index, letter in enumerate(letters)})
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    builder.save(path)
    return path


@pytest.fixture
def only_base_fonts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine on which matplotlib's own fonts are installed, and those that the test puts into this list."""
    own = str(Path(font_manager.__file__).parent)
    entries = [entry for entry in font_manager.fontManager.ttflist if entry.fname.startswith(own)]
    on_disk: list[str] = []
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: list(on_disk))
    return on_disk


def test_plain_text_needs_the_base_font_only(only_base_fonts: list[str]):
    choice = fonts_for(["The cat → ␣ ⏎ ⇥ ⅓ naïve", "кот"])
    assert choice.families == (BASE,)
    assert choice.missing == frozenset()


def test_white_space_controls_and_joiners_need_no_glyph(only_base_fonts: list[str]):
    assert fonts_for(["a\tb\n\u200d\ufe0f\u00a0\u3000"]).missing == frozenset()


def test_letters_that_no_font_has_are_found(only_base_fonts: list[str]):
    choice = fonts_for(["cat 고양이", "猫"])
    assert choice.missing == frozenset("고양이猫")
    assert not choice.can_draw("고")
    assert choice.can_draw("cat")


def test_the_font_that_draws_every_letter_as_a_box_is_no_help(only_base_fonts: list[str]):
    assert "Last Resort High-Efficiency" in {entry.name for entry in font_manager.fontManager.ttflist}
    assert fonts_for(["고"]).missing == frozenset("고")


def test_a_font_installed_after_matplotlib_listed_its_fonts_is_found(only_base_fonts: list[str], tmp_path: Path):
    only_base_fonts.append(str(make_font(tmp_path / "tiny.ttf", "Tiny Hangul", "고양이")))
    choice = fonts_for(["고양이 cat"])
    assert choice.families == (BASE, "Tiny Hangul")
    assert choice.missing == frozenset()


def test_two_fonts_are_joined_where_one_is_not_enough(only_base_fonts: list[str], tmp_path: Path):
    only_base_fonts.append(str(make_font(tmp_path / "a.ttf", "Tiny A", "고양")))
    only_base_fonts.append(str(make_font(tmp_path / "b.ttf", "Tiny B", "이")))
    choice = fonts_for(["고양이"])
    assert set(choice.families) == {BASE, "Tiny A", "Tiny B"}
    assert choice.missing == frozenset()


def test_a_preferred_font_comes_before_others_that_have_the_letters(only_base_fonts: list[str], tmp_path: Path):
    only_base_fonts.append(str(make_font(tmp_path / "a.ttf", "Aaa Hangul", "고양이")))
    only_base_fonts.append(str(make_font(tmp_path / "n.ttf", "NanumGothic", "고양이")))
    assert fonts_for(["고양이"]).families == (BASE, "NanumGothic")


def test_a_damaged_font_file_is_passed_over(only_base_fonts: list[str], tmp_path: Path):
    damaged = tmp_path / "damaged.ttf"
    damaged.write_bytes(b"no font at all")
    only_base_fonts.append(str(damaged))
    assert fonts_for(["고"]).missing == frozenset("고")


@pytest.mark.parametrize(
    ("letters", "package"),
    [("고", "fonts-noto-cjk"), ("猫", "fonts-noto-cjk"), ("ก", "fonts-noto-core"), ("🐈", "fonts-symbola")],
)
def test_the_warning_names_the_letters_and_the_remedy(letters: str, package: str):
    with pytest.warns(MissingGlyphWarning, match=f"{letters} \\(U\\+.*Remedy: install .* apt install {package}"):
        warn_missing(frozenset(letters), "labels show token numbers")


def test_many_missing_letters_are_counted_not_listed():
    with pytest.warns(MissingGlyphWarning, match="and 3 more"):
        warn_missing(frozenset("고양이는피곤했"), "labels show token numbers")


def test_a_label_that_cannot_be_drawn_is_the_number_of_its_token(only_base_fonts: list[str]):
    words = wording(["[CLS]", "고양이", "cat"], "a 고 cat")
    assert words.labels == ["[CLS]", "#1", "cat"]
    assert words.title == f"a {UNKNOWN} cat"


def test_a_title_that_cannot_be_drawn_says_so(only_base_fonts: list[str]):
    assert wording(["a"], "고양이는 피곤했다").title == "a text in letters that no installed font has"


def test_decomposed_letters_are_drawn_composed(only_base_fonts: list[str], tmp_path: Path):
    only_base_fonts.append(str(make_font(tmp_path / "tiny.ttf", "Tiny Hangul", "고")))
    assert wording(["\u1100\u1169"], "cafe\u0301").labels == ["고"]
    assert wording(["x"], "cafe\u0301").title == "café"


def test_long_labels_are_cut_by_the_room_they_take():
    assert shorten("internationalisation", 14) == "international…"
    assert shorten("고양이고양이고양이", 9) == "고양이고…"
    assert shorten("short", 14) == "short"


def test_wide_letters_count_two_and_combining_marks_none():
    assert display_width("고양이") == 6
    assert display_width("cafe\u0301") == 4


def test_fonts_are_opened_once(only_base_fonts: list[str], monkeypatch: pytest.MonkeyPatch):
    fonts_for(["고"])
    opened = []
    monkeypatch.setattr(fonts, "FT2Font", lambda path: opened.append(path))
    fonts_for(["고"])
    assert opened == []
