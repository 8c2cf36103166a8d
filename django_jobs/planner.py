"""The dealing rule without a database: whose job is next.

Start-time fair queueing. Every queue has a virtual time, ``served``: how far it is ahead of
the clock. A card (a job) starts at its queue's time and moves it on by ``cost``, which is
inversely proportional to the queue's weight; the earliest card is dealt first, ties go by
``turn``. A queue that had nothing to run neither saves up turns nor owes any, because the
clock pulls it along. All of it is integer arithmetic: with floats, 3 : 1 drifts within
some hundred jobs. After each pass the clock is 0 again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

NO_FLOOR = (-101, 0)  # comes before every job
FINEST = 10**12  # the scale's bound: weights without a common multiple below it are rounded


@dataclass(frozen=True, slots=True)
class Lane:
    """One range of the ready index that a worker may take from now."""

    queue: str
    slots: int  # the queue's places in this worker
    held: int  # of these, taken
    served: int
    cost: int
    turn: int
    placement: int = 0
    suspect: bool = False
    scarce: bool = False  # its jobs hold resources
    floor: tuple[int, int] = NO_FLOOR  # (-priority, id): nothing before it is looked at

    @property
    def alone(self) -> bool:
        """Whether a pass takes at most one job of all such lanes together.

        Of suspects a worker holds one; of what is left of a resource two jobs might both
        take the last.
        """
        return self.suspect or self.scarce


@dataclass(frozen=True, slots=True, order=True)
class Card:
    """One job dealt: when in virtual time, whose turn, which row of the queue."""

    at: int
    turn: int
    urgency: tuple[int, int]  # (-priority, id)
    queue: str


def deal(
    lanes: Sequence[Lane], rows: Mapping[Lane, Sequence[tuple[int, int]]], room: int
) -> list[Card]:
    """Deal up to ``room`` cards of ``rows``, the (-priority, id) of each lane, sorted.

    This is what ``claim.sql`` does when nobody else claims; tests hold both together.
    """
    open_lanes = [lane for lane in lanes if lane.slots > lane.held]
    lone = _lone(open_lanes, rows)
    cards: list[Card] = []
    for queue in {lane.queue for lane in open_lanes}:
        mine = [lane for lane in open_lanes if lane.queue == queue]
        cards += _cards(mine, rows, lone, room)
    return sorted(cards)[:room]


def _lone(
    lanes: Sequence[Lane], rows: Mapping[Lane, Sequence[tuple[int, int]]]
) -> tuple[int, int] | None:
    """Return the one job of ``alone`` lanes to be dealt: whose card would come first."""
    cards = [
        (lane.served + ahead * lane.cost, lane.turn, row)
        for lane in lanes
        if lane.alone
        for row in rows.get(lane, ())[:1]
        if (ahead := _ahead(row, lane.queue, lanes, rows)) < lane.slots - lane.held
    ]
    return min(cards)[2] if cards else None


def _ahead(
    row: tuple[int, int],
    queue: str,
    lanes: Sequence[Lane],
    rows: Mapping[Lane, Sequence[tuple[int, int]]],
) -> int:
    """Return how many ordinary jobs of ``queue`` are more urgent than ``row``."""
    plain = (lane for lane in lanes if lane.queue == queue and not lane.alone)
    return sum(other < row for lane in plain for other in rows.get(lane, ()))


def _cards(
    lanes: Sequence[Lane],
    rows: Mapping[Lane, Sequence[tuple[int, int]]],
    lone: tuple[int, int] | None,
    room: int,
) -> list[Card]:
    """Return the cards of one queue, over all its lanes, within its slots."""
    first = lanes[0]
    free = first.slots - first.held
    hand = sorted(
        row
        for lane in lanes
        for row in rows.get(lane, ())[: 1 if lane.alone else min(free, room)]
        if not lane.alone or row == lone
    )
    return [
        Card(first.served + rank * first.cost, first.turn, row, first.queue)
        for rank, row in enumerate(hand[:free])
    ]


class Turns:
    """A worker's memory of whose turn it is."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        """``weights``: queue → weight, for the queues whose weight is not 1."""
        self._weights = dict(weights)
        scale = lcm(*self._weights.values())
        self._scale = min(scale, FINEST)
        self._served: dict[str, int] = {}

    def cost(self, queue: str) -> int:
        """Return the virtual time that one job of ``queue`` costs it."""
        return max(self._scale // self._weights.get(queue, 1), 1)

    def served(self, queue: str) -> int:
        """Return how far ``queue`` is ahead of the clock."""
        return self._served.get(queue, 0)

    def advance(self, cards: Mapping[str, int], clock: int) -> None:
        """Note a pass: how many cards each queue was dealt, ``clock`` the latest of them.

        Who is behind the clock is pulled along to it: queues that could not compete.
        """
        for queue, count in cards.items():
            self._served[queue] = self.served(queue) + count * self.cost(queue)
        self._served = {
            queue: served - clock for queue, served in self._served.items() if served > clock
        }
