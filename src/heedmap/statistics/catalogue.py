"""The list of all statistics, and what each name brings with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heedmap.attention.inputs import AttentionInputs
from heedmap.errors import HeedmapError, InputError, UnsupportedError
from heedmap.measurements import Ratio
from heedmap.statistics.argmax import ArgMax
from heedmap.statistics.base import Statistic
from heedmap.statistics.concentration import Concentration
from heedmap.statistics.copies import Duplicate, Induction
from heedmap.statistics.counts import DistancePairs, MapArea, RowsThatMaySee
from heedmap.statistics.distance_profile import DistanceProfile
from heedmap.statistics.entropy import Entropy
from heedmap.statistics.logsumexp import LogSumExp
from heedmap.statistics.maps import MapMax, MapSum
from heedmap.statistics.max_weight import MaxWeight
from heedmap.statistics.mean_distance import MeanDistance
from heedmap.statistics.received import Received
from heedmap.statistics.received_max import ReceivedMax
from heedmap.statistics.row_sums import RowMass, RowMax, RowSum
from heedmap.statistics.saturation import Saturation
from heedmap.statistics.scores import MaxScore, ScoreMean, ScoreStd
from heedmap.statistics.shares import FirstTokenShare, NextShare, PreviousShare, SelfShare
from heedmap.statistics.span_mass import ClassMass, PartMass, SpanMass
from heedmap.statistics.top_keys import TopKeys, TopWeights, ValueTopKeys, ValueTopWeights
from heedmap.statistics.value_received import ValueReceived

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
        MaxScore(),
        ScoreMean(),
        ScoreStd(),
        SelfShare(),
        PreviousShare(),
        NextShare(),
        FirstTokenShare(),
        Duplicate(),
        Induction(),
        SpanMass(),
        ClassMass(),
        PartMass(),
        TopKeys(),
        TopWeights(),
        ReceivedMax(),
        ValueReceived(),
        ValueTopKeys(),
        ValueTopWeights(),
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


PAIRED = (("top_keys", "top_weights"), ("value_top_keys", "value_top_weights"))
"""Statistics that say little without each other."""


SETS: dict[str, tuple[str, ...]] = {"default": DEFAULT, "all": tuple(STATISTICS)}
"""Names that stand for several statistics."""


def choose(
    names: str | Iterable[str], inputs: AttentionInputs, *, partly: bool = False
) -> tuple[tuple[Statistic, ...], dict[str, Ratio]]:
    """The statistics to sweep for, and the ratios among them, by name.

    "default" stands for the default set, "all" for everything that these inputs can tell. A sum brings its denominator
    and their ratio along, keys their weights. What a call cannot tell (distance in cross-attention, spans that were
    not named) is left out of both sets; with `partly` of names too, for one of many calls, others of which can tell.

    Raises:
        InputError: an unknown name, or inputs that lack what it needs.
        UnsupportedError: a statistic of distance asked for by name in cross-attention.
    """
    wanted: set[str] = set(ALWAYS)
    for name in asked_names(names):
        for known in SETS.get(name, (name,)):
            for part in _parts(known):
                lack = _lack(STATISTICS[part], inputs)
                if lack is None:
                    wanted.add(part)
                elif name not in SETS and not partly:
                    raise lack
    ratios = {name: ratio for name, ratio in RATIOS.items() if {ratio.numerator, ratio.denominator} <= wanted}
    return tuple(statistic for name, statistic in STATISTICS.items() if name in wanted), ratios


def asked_names(names: str | Iterable[str]) -> list[str]:
    """Names as a list; one name may be given alone. Raises InputError for what is neither."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise InputError("statistics", expected='"default", "all", a name or a list of names', got=type(names).__name__)
    return list(names)


def lacking(name: str, inputs: AttentionInputs) -> HeedmapError | None:
    """Why these inputs cannot tell a statistic that is asked for by its name; None where they can, and for sets."""
    lacks = (_lack(STATISTICS[part], inputs) for part in (() if name in SETS else _parts(name)))
    return next((lack for lack in lacks if lack is not None), None)


def needs_value(names: str | Iterable[str]) -> bool:
    """Whether a statistic that is asked for by name or as part of "all" reads the value vectors."""
    asked = asked_names(names)
    return any(name == "all" or (name in STATISTICS and STATISTICS[name].needs == "value") for name in asked)


def _lack(statistic: Statistic, inputs: AttentionInputs) -> HeedmapError | None:
    """The error that says why these inputs cannot tell a statistic."""
    if inputs.cross and statistic.positional:
        return UnsupportedError(
            "statistics",
            expected="statistics without distance in cross-attention",
            got=statistic.name,
            do="leave it out: queries and keys belong to different texts",
        )
    held = getattr(inputs, statistic.needs) if statistic.needs else True
    if held is None or (isinstance(held, Mapping) and not held):
        return InputError(
            "statistics",
            expected=f"inputs with {statistic.needs} for {statistic.name}",
            got="none",
            do=f"give {statistic.needs}",
        )
    return None


def _parts(name: str) -> tuple[str, ...]:
    for known, ratio in RATIOS.items():
        if name in (known, ratio.numerator):
            return ratio.numerator, ratio.denominator
    for pair in PAIRED:
        if name in pair:
            return pair
    if name in STATISTICS:
        return (name,)
    raise InputError(
        "statistics", expected=f'"default", "all" or names among {", ".join([*STATISTICS, *RATIOS])}', got=repr(name)
    )
