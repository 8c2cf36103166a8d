"""When workers are killed and the server crashes: all of it follows from the seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Act = Literal["kill", "crash"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One soak. Moments are counted in jobs that have ended, so a slow machine has its share."""

    seed: int
    jobs: int = 5_000
    seconds: float = 0.02  # of each job
    workers: int = 8
    cap: int = 6
    kills: int = 10
    lease: float = 3.0
    rescues: int = 10  # fewer, and the run has proved nothing

    def acts(self) -> list[tuple[int, Act]]:
        """Return (jobs that have ended, what is done then), in order."""
        chosen = random.Random(self.seed)
        first, last = self.jobs // 50, self.jobs * 9 // 10
        moments = chosen.sample(range(first, last), self.kills + 1)
        crash = chosen.randrange(self.kills + 1)
        acts: list[tuple[int, Act]] = [
            (moment, "crash" if number == crash else "kill")
            for number, moment in enumerate(moments)
        ]
        return sorted(acts)

    def chance(self) -> random.Random:
        """Return what chooses the victims."""
        return random.Random(self.seed + 1)


def due(acts: list[tuple[int, Act]], ended: Callable[[], int]) -> Iterator[Act | None]:
    """Yield each act once its moment has come; None: wait a little."""
    for moment, act in acts:
        while ended() < moment:
            yield None
        yield act
