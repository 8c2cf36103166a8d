"""The arithmetic of a report: percentiles, medians over repetitions, verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Bound = Literal["at least", "at most"]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that ``percent`` of all do not exceed."""
    ranked = sorted(values)
    if not ranked:
        raise ValueError("nothing was measured")
    return ranked[max(math.ceil(len(ranked) * percent / 100) - 1, 0)]


def middle(values: Sequence[float]) -> float:
    """Return the median of repetitions."""
    return float(median(values))


def spread(values: Sequence[float]) -> float:
    """Return how far apart repetitions are: (largest - smallest) / median."""
    return (max(values) - min(values)) / middle(values) if middle(values) else 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure must reach, and what it has reached."""

    name: str
    bound: Bound
    limit: float
    figure: float

    @property
    def met(self) -> bool:
        """True when the figure is within its bound; a figure that is no number is not."""
        if math.isnan(self.figure):
            return False
        if self.bound == "at least":
            return self.figure >= self.limit
        return self.figure <= self.limit

    def __str__(self) -> str:
        """Say it as one line of the report."""
        word = "met" if self.met else "MISSED"
        return f"{word}: {self.name}: {self.figure:.3g} ({self.bound} {self.limit:g})"
