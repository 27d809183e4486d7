from __future__ import annotations

import numpy as np
import pytest

from heedmap.errors import InputError
from heedmap.figures.style import from_oklab, style_for, to_oklab

PAGES = ["white", "#14161c"]
MAPS = ["weight", "value", "signed"]
# what red–green, green–red and blue–yellow blind eyes see, in linear RGB (Machado et al. 2009, severity 1)
BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def _colours(page: str, name: str) -> np.ndarray:
    return getattr(style_for(page), name)(np.linspace(0, 1, 257))[:, :3]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", MAPS)
def test_equal_steps_of_a_value_are_equal_steps_of_colour(page: str, name: str):
    steps = np.linalg.norm(np.diff(to_oklab(_colours(page, name)), axis=0), axis=1)
    steps = steps[steps > 1e-9]  # 257 samples of 256 colours meet one colour twice
    assert steps.max() < 1.15 * np.median(steps)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", ["weight", "value"])
def test_more_is_always_further_from_the_page_in_lightness(page: str, name: str):
    lightness = to_oklab(_colours(page, name))[:, 0]
    away = -1 if page == "white" else 1
    assert (np.diff(lightness) * away > -1e-9).all()
    assert abs(lightness[-1] - lightness[0]) > 0.7


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", ["weight", "value"])
@pytest.mark.parametrize("kind", BLIND)
def test_lightness_still_rises_for_colour_blind_eyes(page: str, name: str, kind: str):
    rgb = _colours(page, name)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(BLIND[kind]).T, 0, 1)
    lightness = to_oklab(np.where(seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055))[:, 0]
    away = -1 if page == "white" else 1
    assert (np.diff(lightness) * away > -2e-3).all()


@pytest.mark.parametrize("page", PAGES)
def test_the_middle_of_the_signed_map_is_near_the_page_and_its_ends_differ_in_hue(page: str):
    colours = to_oklab(_colours(page, "signed"))
    middle = colours[128]
    assert abs(middle[0] - to_oklab(np.array([[1, 1, 1]]) if page == "white" else np.array([[0.08] * 3]))[0, 0]) < 0.1
    assert np.linalg.norm(colours[60, 1:] - colours[196, 1:]) > 0.1


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", MAPS)
def test_numbers_on_any_cell_read(page: str, name: str):
    style = style_for(page)
    for colour in _colours(page, name)[::8]:
        ink = _luminance(style.ink_on(tuple(colour)))
        cell = _luminance(colour)
        contrast = (max(ink, cell) + 0.05) / (min(ink, cell) + 0.05)
        assert contrast > 3.0, colour


@pytest.mark.parametrize("page", ["white", "#fff7e0", "#14161c", "black", "navy", (0.9, 0.9, 0.95)])
def test_ink_reads_on_its_page(page: str):
    style = style_for(page)
    ink, ground = sorted((_luminance(style.ink), _luminance(style.page)))
    assert (ground + 0.05) / (ink + 0.05) > 7


def test_what_is_no_colour_is_refused_with_a_hint():
    with pytest.raises(InputError, match=r"\[figures\] expected a colour .* got 'blurple'; try"):
        style_for("blurple")


def test_oklab_and_back_is_the_same_colour():
    rgb = np.random.default_rng(1).random((100, 3))
    assert from_oklab(to_oklab(rgb)) == pytest.approx(rgb, abs=1e-6)


def _luminance(colour) -> float:
    from matplotlib.colors import to_rgb

    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
