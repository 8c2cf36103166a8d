"""Enqueues at random moments, the same for every system, and the time before each."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator

SHORTEST, LONGEST = 0.050, 0.150  # seconds between two enqueues
WARM = 10  # enqueues before the first that counts


def gaps(count: int, seed: int) -> Iterator[float]:
    """Yield the pauses before ``count`` enqueues."""
    chosen = random.Random(seed)
    for _ in range(count):
        yield chosen.uniform(SHORTEST, LONGEST)


def run(enqueue: Callable[[], str], *, count: int, seed: int) -> None:
    """Enqueue and print id → the moment just before the call, as JSON."""
    moments: dict[str, float] = {}
    for number, gap in enumerate(gaps(count + WARM, seed)):
        time.sleep(gap)
        before = time.time()
        job = enqueue()
        if number >= WARM:
            moments[job] = before
    print(json.dumps(moments))
