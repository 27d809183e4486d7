"""Colours of the pictures: one ink and one set of colour maps for a light page, one for a dark page.

The maps are perceptually even: control colours are joined in OKLab (Ottosson 2020) and resampled so that equal steps of
the value are equal steps of colour. Their lightness never turns back, so they also read in grey and with any kind of
colour blindness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.colors import Colormap, ListedColormap, to_rgb

from heedmap.errors import InputError

_RGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LMS_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


@dataclass(frozen=True)
class Style:
    """What a picture is drawn with on its page: the page's colour, three inks, colours for curves, colour maps.

    ``weight`` is for attention weights, ``value`` for statistics from zero up, ``signed`` for statistics with a sign
    (its middle is zero). ``accent``, ``cool``, ``violet`` and ``green`` tell curves apart.
    """

    page: str | tuple[float, float, float]
    panel: str
    ink: str
    muted: str
    faint: str
    accent: str
    cool: str
    violet: str
    green: str
    weight: Colormap
    value: Colormap
    signed: Colormap

    def ink_on(self, color: tuple[float, ...]) -> str:
        """The dark or the light ink, whichever reads on a cell of this colour."""
        return _INKS["light"]["ink"] if to_oklab(np.array(color[:3]))[0] > 0.66 else "#ffffff"


# fmt: off
_INKS = {
    "light": {"ink": "#1d2026", "muted": "#666c78", "faint": "#d9dbe0",
              "accent": "#d9480f", "cool": "#2b6cb0", "violet": "#805ad5", "green": "#2f855a"},
    "dark": {"ink": "#eceef2", "muted": "#9aa1ad", "faint": "#353943",
             "accent": "#ffb454", "cool": "#63b3ed", "violet": "#b794f4", "green": "#68d391"},
}
# control colours from "nothing" to "most"; the first is close to the page, so that zero recedes
_STOPS = {
    "light": {
        "weight": ("#faf7f3", "#fbd9bd", "#f29e7c", "#d9566b", "#96296f", "#4b1450", "#1c0a2a"),
        "value": ("#f2f6f4", "#c3e0d5", "#7fbfba", "#4193ab", "#31628f", "#2a3566", "#1c1536"),
        "signed": ("#0c3a6b", "#3b7ab5", "#a8cbe4", "#f6f4f1", "#f0bf94", "#c56a24", "#6b2d07"),
    },
    "dark": {
        "weight": ("#1a1c22", "#3d1c4f", "#7d2471", "#c2406a", "#ec7d5f", "#f9bf8e", "#fff3df"),
        "value": ("#1a1c22", "#25335f", "#2b5f8c", "#3f90a8", "#7cbfb6", "#bfe2d2", "#f4fbf2"),
        "signed": ("#cfe6fa", "#6aaade", "#2c5480", "#1c1d22", "#7a4a22", "#d9883f", "#fbdcb8"),
    },
}
# fmt: on


def style_for(facecolor: str | tuple[float, float, float]) -> Style:
    """The style that reads on a page of this colour (any matplotlib colour, ``"none"`` and transparency excepted).

    Raises ``InputError`` for what is not a colour.
    """
    try:
        page = to_rgb(facecolor)
    except ValueError as problem:
        raise InputError(
            "figures",
            expected="a colour that matplotlib knows",
            got=repr(facecolor),
            do='try "white", "black" or "#14161c"',
        ) from problem
    kind = "light" if float(to_oklab(np.array(page))[0]) >= 0.6 else "dark"
    stops = _STOPS[kind]
    return Style(
        page=page,
        panel=stops["weight"][0],
        **_INKS[kind],
        weight=even_map(f"heedmap-weight-{kind}", stops["weight"]),
        value=even_map(f"heedmap-value-{kind}", stops["value"]),
        signed=signed_map(f"heedmap-signed-{kind}", stops["signed"]),
    )


def even_map(name: str, stops: tuple[str, ...], size: int = 256) -> ListedColormap:
    """A colour map of ``size`` colours through the stops, at equal distances in OKLab from one colour to the next."""
    return ListedColormap(_even_colours(stops, size), name=name)


def signed_map(name: str, stops: tuple[str, ...], size: int = 256) -> ListedColormap:
    """A colour map whose middle colour is the middle stop: each half is even by itself."""
    middle = len(stops) // 2
    halves = [_even_colours(stops[: middle + 1], size // 2 + 1), _even_colours(stops[middle:], size // 2 + 1)]
    return ListedColormap(np.concatenate([halves[0], halves[1][1:]]), name=name)


def _even_colours(stops: tuple[str, ...], size: int) -> np.ndarray:
    lab = to_oklab(np.array([to_rgb(stop) for stop in stops]))
    fine = _smooth_path(lab, 64)
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(fine, axis=0), axis=1))])
    even = np.linspace(0.0, length[-1], size)
    path = np.stack([np.interp(even, length, fine[:, channel]) for channel in range(3)], axis=1)
    return from_oklab(path)


def to_oklab(rgb: np.ndarray) -> np.ndarray:
    """sRGB in 0 … 1, ``[..., 3]``, as OKLab: lightness, green–red, blue–yellow."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ _RGB_TO_LMS.T) @ _LMS_TO_LAB.T


def from_oklab(lab: np.ndarray) -> np.ndarray:
    """OKLab as sRGB, clipped to 0 … 1."""
    linear = (lab @ np.linalg.inv(_LMS_TO_LAB).T) ** 3 @ np.linalg.inv(_RGB_TO_LMS).T
    linear = np.clip(linear, 0.0, 1.0)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def _smooth_path(points: np.ndarray, per_segment: int) -> np.ndarray:
    """A curve through the points without corners or overshoot: monotone cubic (Fritsch–Carlson) per channel."""
    slopes = np.diff(points, axis=0)
    tangents = np.zeros_like(points)
    same_direction = slopes[:-1] * slopes[1:] > 0
    middle = np.zeros_like(slopes[:-1])
    np.divide(2 * slopes[:-1] * slopes[1:], slopes[:-1] + slopes[1:], out=middle, where=same_direction)
    tangents[1:-1] = middle
    tangents[0], tangents[-1] = slopes[0], slopes[-1]
    t = np.linspace(0.0, 1.0, per_segment, endpoint=False)[:, None]
    pieces = [
        (2 * t**3 - 3 * t**2 + 1) * points[i]
        + (t**3 - 2 * t**2 + t) * tangents[i]
        + (3 * t**2 - 2 * t**3) * points[i + 1]
        + (t**3 - t**2) * tangents[i + 1]
        for i in range(len(slopes))
    ]
    return np.concatenate([*pieces, points[-1:]])
