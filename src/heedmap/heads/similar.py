"""How alike heads attend: the Jensen–Shannon distance between every two, a map of them in the plane, and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heedmap.errors import InputError, UnsupportedError
from heedmap.heads.strips import check_exact, layers_of, seen_by

if TYPE_CHECKING:
    from heedmap.runs.manifest import LayerInfo
    from heedmap.runs.reader import Run

WHERE = "similar"
MOST_GROUPS = 12
"""Groups up to which the best number is looked for."""
_WEIGHTS = 2**21  # of all heads together in a strip: 16 MB in float64


@dataclass(frozen=True)
class Distances:
    """How far apart heads are.

    Attributes:
        part: whose heads.
        heads: (part, layer, head) of each.
        matrix: nats, float64 `[heads, heads]`: the mean over rows of the Jensen–Shannon divergence between the
            attention of two heads, from 0 (the same) to ln 2 (nothing in common). Times `rows` it is the sum over
            tokens of Clark et al.
        rows: query rows that count: those of all heads that see something.
        of_rows: how many there were to choose from.
    """

    part: str
    heads: list[tuple[str, int, int]]
    matrix: np.ndarray
    rows: int
    of_rows: int


def distances(
    run: Run,
    *,
    part: str | None = None,
    rows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Distances:
    """The distance between every two heads of one part of a run, from the exact weights of its text.

        distance(a, b) = mean over rows i of JS(w_a[i, ·], w_b[i, ·]),
        JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2

    A sink's share, which belongs to no key, counts as one more outcome. Memory is heads² and one strip of rows and
    keys, whatever the length; the work is heads² · tokens² / 2.

    Args:
        run: a run with its inputs.
        part: which stack of layers, where there are several.
        rows: take this many rows, evenly spaced over the text, in place of all.
        progress: called with rows done, and of how many.

    Raises:
        InputError: a part that is not there, one head only, layers over different tokens.
        RunError, UnsupportedError: a run without inputs, or with a formula that it could not describe.

    Source: Clark et al. 2019, §6 (Σ over tokens of JS; here divided by their number).
    """
    layers = layers_of(run, part, WHERE)
    check_exact(run, layers, WHERE)
    first = layers[0]
    heads = [(info.part, info.layer, head) for info in layers for head in info.heads]
    if len(heads) < 2:
        raise InputError(WHERE, expected="two heads or more", got="one")
    for info in layers:
        if (info.query_len, info.query_offset, info.key_len, info.key_offset) != (
            first.query_len, first.query_offset, first.key_len, first.key_offset
        ):  # fmt: skip
            raise InputError(WHERE, expected="layers over the same tokens", got=f"others in layer {info.layer}")
    if rows is not None and rows < 1:
        raise InputError(WHERE, expected="one row or more", got=f"{rows}")
    every = np.arange(first.query_len) + first.query_offset
    asked = every if rows is None or rows >= len(every) else every[np.linspace(0, len(every) - 1, rows).astype(int)]
    asked = asked[_seeing(run, layers, asked)]
    if not len(asked):
        raise InputError(WHERE, expected="rows in which every head sees something", got="none")
    found = np.zeros((len(heads), len(heads)))
    step = max(1, _WEIGHTS // (len(heads) * min(first.key_len, 1024)))
    for start in range(0, len(asked), step):
        found += _divergences(run, layers, asked[start : start + step], len(heads))
        if progress is not None:
            progress(min(start + step, len(asked)), len(asked))
    matrix = np.maximum(found, 0.0) / len(asked)
    return Distances(first.part, heads, (matrix + matrix.T) / 2, len(asked), len(every))


def _seeing(run: Run, layers: list[LayerInfo], rows: np.ndarray) -> np.ndarray:
    """Which of these rows count in every layer: no padding, and something to see (or a sink to rest on)."""
    good = np.ones(len(rows), dtype=bool)
    for info in layers:
        table = run.table(
            "query", part=info.part, layer=info.layer, head=info.heads[0], columns=["position", "row_sum"]
        )
        position, row_sum = (column.to_numpy() for column in table.columns)
        good &= np.isin(rows, position[row_sum > 0])
    return good


def _divergences(run: Run, layers: list[LayerInfo], rows: np.ndarray, count: int) -> np.ndarray:
    """Σ over rows of JS between every two heads, nats `[heads, heads]`, keys a stretch at a time."""
    spans = [seen_by(info, rows) for info in layers]
    low, high = min(span.start for span in spans), max(span.stop for span in spans)
    width = max(1, _WEIGHTS // (count * len(rows)))
    mixed, own = np.zeros((count, count)), np.zeros(count)
    whole = np.zeros((count, len(rows)))
    for start in range(low, high, width):
        table = _table(run, layers, rows, range(start, min(start + width, high)), count)
        whole += table.sum(2)
        _add(table, mixed, own)
    sinks = np.concatenate([np.full(len(info.heads), info.sinks is not None) for info in layers])
    if sinks.any():
        rest = np.where(sinks[:, None], np.maximum(1 - whole, 0.0), 0.0)
        _add(rest[:, :, None], mixed, own)
    return mixed - (own[:, None] + own[None, :]) / 2


def _add(table: np.ndarray, mixed: np.ndarray, own: np.ndarray) -> None:
    """Add the entropies of heads, and of the mixtures of every two, over one stretch of keys `[heads, rows, keys]`."""
    flat = table.reshape(len(table), -1)
    own += _entropy(flat)
    for index in range(len(flat) - 1):
        both = _entropy((flat[index] + flat[index + 1 :]) / 2)
        mixed[index, index + 1 :] += both
        mixed[index + 1 :, index] += both
    mixed[np.diag_indices_from(mixed)] = own


def _entropy(weights: np.ndarray) -> np.ndarray:
    """−Σ w ln w over the last axis, with 0 ln 0 = 0."""
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return -np.einsum("...k,...k->...", weights, logs)


def _table(run: Run, layers: list[LayerInfo], rows: np.ndarray, keys: range, count: int) -> np.ndarray:
    """Weights of all heads, float64 `[heads, rows, keys]`."""
    table = np.empty((count, len(rows), len(keys)))
    index = 0
    for info in layers:
        for head in info.heads:
            table[index] = run.weights(info.layer, head, rows, slice(keys.start, keys.stop), part=info.part)
            index += 1
    return table


def embed(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Places in the plane whose distances come as near as can be to √(divergence), which is a metric.

        B = −½ J D² J, J = I − 1/n;   places = √λ · v of the two largest eigenvalues

    Returns:
        `[heads, 2]`, and the share of the positive eigenvalues that the plane holds. Signs are fixed (the largest
        coordinate of each axis is positive), so that the same distances give the same picture.

    Source: classical multidimensional scaling, Torgerson 1952; √JS is a metric, and embeds: Fuglede & Topsøe 2004.
    Clark et al. 2019 embed the same distances, §6.
    """
    count = len(matrix)
    centre = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ matrix @ centre)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = np.maximum(values, 0.0)
    places = np.zeros((count, 2))
    places[:, : min(2, count)] = vectors[:, :2] * np.sqrt(positive[:2])
    signs = np.sign(places[np.abs(places).argmax(0), [0, 1]])
    total = float(positive.sum())
    return places * np.where(signs == 0, 1.0, signs), float(positive[:2].sum() / total) if total > 0 else 1.0


def group(matrix: np.ndarray, count: int | None = None) -> tuple[np.ndarray, float]:
    """Groups of heads: Ward's linkage over √(divergence), cut where they are told apart best, or into `count`.

    √(divergence) is the distance of points in a Hilbert space, as Ward's criterion (least variance within groups) asks.

    Returns:
        The number of each head's group, from 0, largest group first; and the mean silhouette (1: groups far apart,
        0: no groups to speak of).

    Raises:
        InputError: fewer than one group, or more than heads.
        UnsupportedError: scipy is not installed.

    Source: Ward 1963; Rousseeuw 1987 (silhouettes); √JS is Hilbertian: Fuglede & Topsøe 2004.
    """
    hierarchy, squareform = scipy_tools()
    heads = len(matrix)
    if count is not None and not 1 <= count <= heads:
        raise InputError(WHERE, expected=f"from 1 to {heads} groups", got=f"{count}")
    apart = np.sqrt(matrix)
    tree = hierarchy.linkage(squareform(apart, checks=False), method="ward")
    tried = [count] if count is not None else list(range(2, min(MOST_GROUPS, heads - 1) + 1)) or [1]
    best: tuple[np.ndarray, float] | None = None
    for number in tried:
        of = hierarchy.fcluster(tree, number, criterion="maxclust") - 1
        score = silhouette(apart, of)
        if best is None or score > best[1]:
            best = of, score
    assert best is not None
    of, score = best
    sizes = np.bincount(of)
    order = sorted(range(len(sizes)), key=lambda index: (-sizes[index], int(np.flatnonzero(of == index)[0])))
    return np.argsort(order)[of], score


def silhouette(apart: np.ndarray, of: np.ndarray) -> float:
    """Mean over heads of (b − a) / max(a, b): a the mean distance within its group, b to the nearest other; 0 for a
    head alone in its group."""
    groups = np.unique(of)
    if len(groups) < 2:
        return 0.0
    member = of[:, None] == groups[None, :]
    sums, sizes = apart @ member, member.sum(0)
    own = np.searchsorted(groups, of)
    at = np.arange(len(of))
    alone = sizes[own] == 1
    within = sums[at, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[at, own] = np.inf
    nearest = means.min(1)
    larger = np.maximum(within, nearest)
    scores = np.divide(nearest - within, larger, out=np.zeros(len(of)), where=larger > 0)
    return float(np.where(alone, 0.0, scores).mean())


def scipy_tools() -> tuple[Any, Any]:
    """What `group` takes from scipy; raises UnsupportedError where it is not installed."""
    try:
        from scipy.cluster import hierarchy
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise UnsupportedError(
            WHERE, expected="scipy, to find groups", got="none", do="pip install 'heedmap[similar]'"
        ) from error
    return hierarchy, squareform
