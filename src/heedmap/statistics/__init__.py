"""What can be measured: one file for each statistic, the protocol they share, and the list of all."""

from __future__ import annotations

from heedmap.statistics.base import GroupStatistic, RowStatistic, Statistic
from heedmap.statistics.catalogue import DEFAULT, RATIOS, STATISTICS, choose

__all__ = ["DEFAULT", "RATIOS", "STATISTICS", "GroupStatistic", "RowStatistic", "Statistic", "choose"]
