"""Where looks for ready jobs begin while what has gone lies in their way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from django_jobs.operations.claim import Pass
from django_jobs.planner import NO_FLOOR, Lane

SLOW_SECONDS = 0.01  # of the server, for a look from the start
FULL_SECONDS = (1.0, 10.0)  # at least and at most until the next of them
SHARE = 9  # for so many times as long as it took, if that is more


class Floors:
    """A transaction that is open anywhere keeps the entries of jobs that have left the index.

    They lie before those that are ready, and each look from the start walks all of them.
    So after a slow one the next looks begin where it found the first job of each lane. What
    comes to lie before that, a more urgent job or one that is ready again, is found by the
    next look from the start. Used by the loop's thread alone.
    """

    def __init__(self) -> None:
        self.is_full = True  # the last look was from the start
        self._floors: dict[tuple[str, int, bool], tuple[int, int]] = {}
        self._queues: dict[int, str] = {}  # turn → queue, in the last look
        self._full_at = 0.0

    def raised(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes of the next look."""
        self._queues = {lane.turn: lane.queue for lane in lanes}
        self.is_full = monotonic() >= self._full_at
        if self.is_full:
            return lanes
        return [replace(lane, floor=self._floor(lane)) for lane in lanes]

    def _floor(self, lane: Lane) -> tuple[int, int]:
        return self._floors.get((lane.queue, lane.placement, lane.suspect), NO_FLOOR)

    def note(self, got: Pass) -> None:
        """Learn from a look; one that found nothing at all is followed by a full one."""
        for turn, placement, suspect, order, pk in got.firsts:
            self._floors[self._queues[turn], placement, bool(suspect)] = order, pk
        if self.is_full:
            shortest, longest = FULL_SECONDS
            pause = min(max(got.took * SHARE, shortest), longest)
            is_slow = got.seen and got.took > SLOW_SECONDS
            self._full_at = monotonic() + pause if is_slow else 0.0
