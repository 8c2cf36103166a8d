"""When workers are killed and the server crashes: all of it follows from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Act = Literal["kill", "crash"]
EARLIEST, LATEST = 0.02, 0.6  # of a wave: later, and its jobs may have ended before the act


@dataclass(frozen=True, slots=True)
class Wave:
    """Jobs that are enqueued together, and what is done while they run."""

    jobs: int
    acts: list[tuple[int, Act]]  # after how many of its jobs have ended, in order


@dataclass(frozen=True, slots=True)
class Plan:
    """One soak. Moments are counted in jobs that have ended, so a slow machine has its share.

    The jobs come in waves: a worker takes longer to start than a wave takes to run, and those
    that replace the killed shall be killed too.
    """

    seed: int
    jobs: int = 5_000
    seconds: float = 0.02  # of each job
    workers: int = 8
    cap: int = 6
    waves: int = 5
    kills: int = 10
    lease: float = 3.0
    rescues: int = 10  # fewer, and the run has proved nothing

    def schedule(self) -> list[Wave]:
        """Return the waves; one of all acts is the crash."""
        chosen = random.Random(self.seed)
        number = self.kills + 1
        crash = chosen.randrange(number)
        size, rest = divmod(self.jobs, self.waves)
        waves = []
        for wave in range(self.waves):
            mine = range(wave * number // self.waves, (wave + 1) * number // self.waves)
            moments = sorted(int(size * chosen.uniform(EARLIEST, LATEST)) for _ in mine)
            acts: list[Act] = ["crash" if act == crash else "kill" for act in mine]
            jobs = size + rest * (wave == self.waves - 1)
            waves.append(Wave(jobs, list(zip(moments, acts, strict=True))))
        return waves

    def chance(self) -> random.Random:
        """Return what chooses the victims."""
        return random.Random(self.seed + 1)
