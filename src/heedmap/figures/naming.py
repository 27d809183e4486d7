"""Names beside points: none over another, nor over a point, with a line to its point where it had to move away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_GAP, _POINT = 0.035, 0.03  # inches: between two things, and half the side of a point
_NEAR = ((1, 0.7), (1, 0), (-1, 0.7), (-1, 0), (0, 1), (0, -1), (1, -0.7), (-1, -0.7))
"""Where a name may stand at its point, the best first, in halves of its own width and height."""
_RINGS = np.arange(0.16, 1.1, 0.07)
"""How far from its point a name may go, in inches."""
_AROUND = 20
_ROUNDS, _MANY = 8, 400
"""How often those without a place may choose first in a new round, and of how many points not: it would take long."""


@dataclass
class Name:
    """Where a name stands: its middle, in inches like the points; `away`: whether a line must lead to its point."""

    x: float
    y: float
    away: bool


def beside(points: np.ndarray, sizes: np.ndarray, room: Sequence[float]) -> list[Name | None]:
    """A place for the name of each point, None where there is none; the most crowded choose first.

    Args:
        points: `[points, 2]`, in inches from the lower left corner.
        sizes: `[points, 2]`, width and height of each name in inches.
        room: width and height of all, which no name leaves.
    """
    apart = np.abs(points[:, None] - points[None]).max(-1)
    order = np.argsort(-(apart < 0.4).sum(1), kind="stable")
    best: list[Name | None] = []
    for _ in range(_ROUNDS if len(points) <= _MANY else 1):
        found = _in_order(order, points, sizes, room)
        if not best or found.count(None) < best.count(None):
            best = found
        if None not in found:
            break
        without = np.array([found[index] is None for index in order])
        order = np.concatenate([order[without], order[~without]])
    return best


def _in_order(order: np.ndarray, points: np.ndarray, sizes: np.ndarray, room: Sequence[float]) -> list[Name | None]:
    """Places for the names, each the first that those before it in the order have left free."""
    far = float(_RINGS[-1]) + float(sizes.max(initial=0.0)) + 2 * _GAP
    dots = np.concatenate([points - _POINT, points + _POINT], 1)  # left, bottom, right, top
    names, lines = np.zeros((0, 4)), np.zeros((0, 4))  # lines from x, y to x, y
    found: list[Name | None] = [None] * len(points)
    for index in order:
        point, half = points[index], sizes[index] / 2 + _GAP / 2
        own = np.arange(len(points)) == index
        others, named, led = (_within(far, point, some) for some in (dots[~own], names, lines))
        for middles, away in _candidates(point, half):
            wanted = np.concatenate([middles - half, middles + half], 1)
            ends = np.concatenate([np.broadcast_to(point, middles.shape), _edge(point, middles, half)], 1)
            free = ((wanted[:, :2] >= 0) & (wanted[:, 2:] <= room)).all(1) & ~_cross(led, wanted).any(0)
            free &= ~_overlap(wanted, np.concatenate([others, named])).any(1)
            if away:
                free &= ~_cross(ends, named).any(1)
            if not free.any():
                continue
            chosen = int(np.argmax(free))
            found[index] = Name(float(middles[chosen, 0]), float(middles[chosen, 1]), away)
            names = np.concatenate([names, wanted[chosen : chosen + 1]])
            if away:
                lines = np.concatenate([lines, ends[chosen : chosen + 1]])
            break
    return found


def _within(far: float, point: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Those whose middle is no farther than that from the point along either axis."""
    return some[np.abs((some[:, :2] + some[:, 2:]) / 2 - point).max(1) < far]


def _candidates(point: np.ndarray, half: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Middles `[candidates, 2]` at the point, then on rings around it."""
    near = point + np.array(_NEAR) * (half + _POINT)
    turn = 2 * np.pi * np.arange(_AROUND) / _AROUND
    around = np.stack([np.cos(turn), np.sin(turn)], 1)
    return [(near, False), *((point + radius * around + np.sign(around) * half, True) for radius in _RINGS)]


def _edge(point: np.ndarray, middles: np.ndarray, half: np.ndarray) -> np.ndarray:
    """The place of each box that is nearest to the point: where its line ends."""
    return np.clip(point, middles - half, middles + half)


def _overlap(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """`[some, others]`: which boxes have a place in common."""
    a, b = some[:, None], others[None]
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1)


def _cross(lines: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """`[lines, boxes]`: which lines go through which boxes, by where each axis lets them in and out."""
    start, way = lines[:, None, :2], (lines[:, 2:] - lines[:, :2])[:, None]
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)
    at = np.stack([(boxes[None, :, :2] - start) / way, (boxes[None, :, 2:] - start) / way])
    enter, leave = at.min(0).max(-1), at.max(0).min(-1)
    return (enter < leave) & (leave > 0) & (enter < 1)
