"""Labels are readable: nothing invisible, nothing of a vocabulary's own spelling, never too long."""

from __future__ import annotations

import pytest

from heedmap.capture.labels import LONGEST, fraction, labels, readable, shortened, visible
from heedmap.capture.spans import Placed


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (" cat", "␣cat"),
        ("a b\n\tc", "a␣b⏎⇥c"),
        ("\r\n", "⏎"),
        ("\r", "␍"),
        ("\x07\x1b", "␇␛"),
        ("\x7f", "␡"),
        ("\x85", "‹U+0085›"),
        ("\u00a0x", "‹NBSP›x"),
        ("\u200b", "‹ZWSP›"),
        ("\u200d", "‹ZWJ›"),
        ("\ufe0f", "‹VS16›"),
        ("\u202eabc", "‹RLO›abc"),
        ("\u3164", "‹U+3164›"),
        ("\ue000", "‹U+E000›"),
        ("\u2800", "‹U+2800›"),
    ],
)
def test_invisible_characters_are_shown(text: str, label: str) -> None:
    assert readable(text) == label


@pytest.mark.parametrize(
    "text", ["cat", "한국어", "שלום", "مرحبا", "naïve", "cafe\u0301", "👩‍👩‍👧", "👍🏽", "🇰🇷", "❤️", "▁", "##a"]
)
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert readable(text) == text


def test_a_combining_mark_alone_stands_on_a_dotted_circle() -> None:
    assert readable("\u0301") == "◌\u0301"
    assert readable("\u05b8") == "◌\u05b8"


def test_a_joiner_with_nothing_behind_it_is_named() -> None:
    assert readable("👩\u200d") == "👩‹ZWJ›"


def test_long_labels_keep_their_beginning_and_end() -> None:
    word = "antidisestablishmentarianism"
    assert readable(word[:LONGEST]) == word[:LONGEST]
    label = readable(word)
    assert len(label) == LONGEST
    assert label == f"{word[:15]}…{word[-8:]}"
    assert shortened(visible("👩‍👩‍👧" * 30)) == "👩‍👩‍👧" * 15 + "…" + "👩‍👩‍👧" * 8


def test_fractions_are_one_glyph_where_there_is_one() -> None:
    assert [fraction(part, 3) for part in (1, 2, 3)] == ["⅓", "⅔", "³⁄₃"]
    assert fraction(12, 14) == "¹²⁄₁₄"


def _labels(text: str, spans: list[tuple[int, int] | None]) -> list[str]:
    return labels(text, Placed(spans, [span is None for span in spans]), [b"?"] * len(spans))


def test_part_of_a_character_is_the_character_and_which_part() -> None:
    assert _labels("나는", [(0, 1), (0, 1), (0, 1), (1, 2)]) == ["나 ⅓", "나 ⅔", "나 ³⁄₃", "는"]


def test_a_token_can_hold_a_whole_character_and_part_of_the_next() -> None:
    assert _labels(" 집", [(0, 2), (1, 2), (1, 2)]) == ["␣집 ⅓", "집 ⅔", "집 ³⁄₃"]


def test_a_token_can_hold_parts_of_two_characters() -> None:
    assert _labels("나는다", [(0, 1), (0, 2), (1, 3)]) == ["나 ½", "나 ²⁄₂ 는 ½", "는 ²⁄₂ 다"]


def test_a_letter_and_its_accent_can_be_shared_as_one() -> None:
    assert _labels("xe\u0301", [(0, 1), (1, 3), (1, 3)]) == ["x", "e\u0301 ½", "e\u0301 ²⁄₂"]


def test_without_a_place_the_token_gives_the_label() -> None:
    spans: list[tuple[int, int] | None] = [None, (0, 3), None, None]
    says = [b" ", b"ca", b"\xe2\x80", b""]
    assert labels("cat", Placed(spans, [True, True, True, True]), says) == ["␣", "ca", "‹E2 80›", "‹nothing›"]
