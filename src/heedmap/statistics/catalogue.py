"""The list of all statistics, and what each name brings with it."""

from __future__ import annotations

from collections.abc import Iterable

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import InputError, UnsupportedError
from heedmap.measurements import Ratio
from heedmap.statistics.argmax import ArgMax
from heedmap.statistics.base import Statistic
from heedmap.statistics.concentration import Concentration
from heedmap.statistics.counts import DistancePairs, MapArea, RowsThatMaySee
from heedmap.statistics.distance_profile import DistanceProfile
from heedmap.statistics.entropy import Entropy
from heedmap.statistics.logsumexp import LogSumExp
from heedmap.statistics.maps import MapMax, MapSum
from heedmap.statistics.max_weight import MaxWeight
from heedmap.statistics.mean_distance import MeanDistance
from heedmap.statistics.received import Received
from heedmap.statistics.row_sums import RowMass, RowMax, RowSum
from heedmap.statistics.saturation import Saturation

STATISTICS: dict[str, Statistic] = {
    statistic.name: statistic
    for statistic in (
        RowMax(),
        RowSum(),
        Entropy(),
        MaxWeight(),
        ArgMax(),
        LogSumExp(),
        RowMass(),
        Concentration(),
        Saturation(),
        MeanDistance(),
        Received(),
        RowsThatMaySee(),
        DistanceProfile(),
        DistancePairs(),
        MapSum(),
        MapMax(),
        MapArea(),
    )
}
RATIOS: dict[str, Ratio] = {
    "received_mean": Ratio("received", "rows_that_may_see", "weight"),
    "distance_mean": Ratio("distance_profile", "distance_pairs", "weight"),
    "map_mean": Ratio("map_sum", "map_area", "weight"),
}
ALWAYS = ("row_max", "row_sum")
"""Measured whatever is asked: they make any window of weights exact."""
DEFAULT = (
    "entropy",
    "max_weight",
    "argmax",
    "logsumexp",
    "row_mass",
    "concentration",
    "saturation",
    "mean_distance",
    "received_mean",
    "distance_mean",
    "map_mean",
    "map_max",
)


def choose(names: str | Iterable[str], inputs: AttentionInputs) -> tuple[tuple[Statistic, ...], dict[str, Ratio]]:
    """The statistics to sweep for, and the ratios among them, by name; "default" stands for the default set.

    A sum brings its denominator and their ratio along. Statistics of distance are left out of the default set for
    cross-attention.

    Raises:
        InputError: an unknown name.
        UnsupportedError: a statistic of distance asked for by name in cross-attention.
    """
    asked = [names] if isinstance(names, str) else list(names)
    wanted: set[str] = set(ALWAYS)
    for name in asked:
        for known in DEFAULT if name == "default" else (name,):
            parts = _parts(known)
            if inputs.cross and any(STATISTICS[part].positional for part in parts):
                if name == "default":
                    continue
                raise UnsupportedError(
                    "measure",
                    expected="statistics without distance in cross-attention",
                    got=known,
                    do="leave it out: queries and keys belong to different texts",
                )
            wanted.update(parts)
    ratios = {n: ratio for n, ratio in RATIOS.items() if {ratio.numerator, ratio.denominator} <= wanted}
    return tuple(statistic for name, statistic in STATISTICS.items() if name in wanted), ratios


def _parts(name: str) -> tuple[str, ...]:
    for known, ratio in RATIOS.items():
        if name in (known, ratio.numerator):
            return ratio.numerator, ratio.denominator
    if name in STATISTICS:
        return (name,)
    raise InputError(
        "statistics", expected=f'"default" or names among {", ".join([*STATISTICS, *RATIOS])}', got=repr(name)
    )
