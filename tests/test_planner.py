"""The dealing rule: shares, turns and bounds, without a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.planner import FINEST, Lane, Turns, deal

QUEUES = ("a", "b", "c", "d", "e", "f")
PRIMES = (997, 991, 983, 977, 971, 967)  # no common multiple below FINEST
BIGINT = 2**63 - 1


class Worker:
    """A worker whose queues are backlogged, and whose jobs end before the next pass."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.turns = Turns(weights)
        self.queues = list(weights)
        self.clock = 0  # since the start, where the planner's is 0 after each pass

    def lane(self, queue: str, *, slots: int = 1000) -> Lane:
        return Lane(
            queue=queue,
            slots=slots,
            held=0,
            served=self.turns.served(queue),
            cost=self.turns.cost(queue),
            turn=self.queues.index(queue),
        )

    def deal(self, room: int = 1, *, backlogged: Iterable[str] | None = None) -> list[str]:
        """Take one pass; return the queues of its cards in their order."""
        lanes = [self.lane(queue) for queue in self.queues]
        full = self.queues if backlogged is None else backlogged
        rows = {lane: [(0, n) for n in range(room)] for lane in lanes if lane.queue in full}
        cards = deal(lanes, rows, room)
        if cards:
            self.turns.advance(Counter(card.queue for card in cards), cards[-1].at)
            self.clock += cards[-1].at
        return [card.queue for card in cards]

    def starts(self, count: int, *, room: int = 1) -> list[str]:
        """Return the queues of the next ``count`` jobs."""
        dealt: list[str] = []
        while len(dealt) < count:
            dealt += self.deal(room)
        return dealt


def windows(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[start : start + size] for start in range(len(items) - size + 1))


# The cases that people expect.


def test_three_backlogged_queues_at_cap_1_run_in_turn():
    assert list("abc") * 60 == Worker({"a": 1, "b": 1, "c": 1}).starts(180)


def test_equal_weights_are_equal_whatever_the_number():
    assert list("abc") * 60 == Worker({"a": 7, "b": 7, "c": 7}).starts(180)


def test_weights_3_to_1_at_cap_1_hold_in_every_window_of_4():
    starts = Worker({"a": 3, "b": 1}).starts(400)
    assert [{"a": 3, "b": 1}] * 397 == [Counter(window) for window in windows(starts, 4)]


@pytest.mark.parametrize("room", [1, 2, 3, 4, 5, 7, 50])
def test_weights_hold_whatever_the_room(room):
    starts = Worker({"a": 3, "b": 1}).starts(400, room=room)
    assert all(Counter(window) == {"a": 3, "b": 1} for window in windows(starts[:400], 4))


def test_room_5_over_three_full_queues_goes_on_where_it_stopped():
    worker = Worker({"a": 1, "b": 1, "c": 1})
    total: Counter[str] = Counter()
    for _ in range(30):
        shares = Counter(worker.deal(5))
        assert [1, 2, 2] == sorted(shares.values())
        total += shares
        assert max(total.values()) - min(total.values()) <= 1
    assert Counter(a=50, b=50, c=50) == total


def test_a_queue_with_one_row_gives_the_rest_of_its_share_to_the_others():
    lanes = [Lane(queue, 8, 0, 0, 1, turn) for turn, queue in enumerate("abc")]
    rows = {lane: [(0, n) for n in range(1 if lane.queue == "a" else 8)] for lane in lanes}
    assert {"a": 1, "b": 3, "c": 2} == Counter(card.queue for card in deal(lanes, rows, 6))


def test_a_queue_at_its_slots_is_passed_over():
    lanes = [Lane("a", 2, 2, 0, 1, 0), Lane("b", 2, 1, 0, 1, 1)]
    rows = {lane: [(0, n) for n in range(8)] for lane in lanes}
    assert ["b"] == [card.queue for card in deal(lanes, rows, 6)]


def test_two_lanes_of_one_queue_share_its_slots():
    lanes = [Lane("a", 3, 0, 0, 1, 0, placement=n) for n in range(2)]
    rows = {lane: [(0, 10 * n + lane.placement) for n in range(8)] for lane in lanes}
    assert [0, 1, 10] == [card.urgency[1] for card in deal(lanes, rows, 6)]


def test_of_all_suspects_the_one_whose_card_comes_first_is_dealt():
    """One at the tail of its queue must not keep back one at the head of another."""
    a, b = (Lane(queue, 8, 0, 0, 1, turn) for turn, queue in enumerate("ab"))
    tail, head = (Lane(queue, 8, 0, 0, 1, turn, suspect=True) for turn, queue in enumerate("ab"))
    rows = {a: [(0, 1), (0, 2)], tail: [(5, 3)], b: [(0, 4), (0, 5)], head: [(-5, 6)]}
    assert [1, 6] == [card.urgency[1] for card in deal([a, tail, b, head], rows, 2)]


def test_a_suspect_beyond_its_queues_slots_keeps_no_other_back():
    plain = Lane("a", 1, 0, 0, 1, 0)
    beyond, other = Lane("a", 1, 0, 0, 1, 0, suspect=True), Lane("b", 1, 0, 0, 1, 1, suspect=True)
    rows = {plain: [(0, 1)], beyond: [(0, 2)], other: [(0, 3)]}
    assert [1, 3] == [card.urgency[1] for card in deal([plain, beyond, other], rows, 6)]


def test_who_was_away_does_not_catch_up():
    worker = Worker({"a": 1, "b": 1})
    for _ in range(50):
        worker.deal(backlogged="a")
    assert 5 == Counter(worker.starts(10))["b"]


def test_who_ran_alone_owes_nothing():
    worker = Worker({"a": 1, "b": 9})
    for _ in range(50):
        worker.deal(6, backlogged="a")
    assert "a" in worker.starts(11)


# Any hand.


@st.composite
def hands(draw, *, suspects=True):
    """Lanes of some queues and placements, and the rows of each lane."""
    lanes: list[Lane] = []
    for turn, queue in enumerate(draw(st.sets(st.sampled_from(QUEUES), min_size=1))):
        slots, held = draw(st.integers(0, 5)), draw(st.integers(0, 3))
        served, cost = draw(st.integers(0, 20)), draw(st.integers(1, 12))
        lanes += [
            Lane(queue, slots, held, served, cost, turn, placement, suspect)
            for placement in range(draw(st.integers(1, 2)))
            for suspect in ((False, True) if suspects else (False,))
        ]
    owners = draw(st.lists(st.sampled_from(lanes), max_size=30))
    rows: dict[Lane, list[tuple[int, int]]] = {lane: [] for lane in lanes}
    for number, lane in enumerate(owners):
        rows[lane].append((draw(st.integers(-2, 2)), number))
    return lanes, {lane: sorted(found) for lane, found in rows.items()}


rooms = st.integers(1, 8)


def free(lanes: Iterable[Lane], queue: str) -> int:
    return next(max(lane.slots - lane.held, 0) for lane in lanes if lane.queue == queue)


@given(hands(), rooms)
def test_a_pass_never_deals_more_than_the_room_or_a_queues_slots(hand, room):
    lanes, rows = hand
    cards = deal(lanes, rows, room)
    assert len(cards) <= room
    for queue, count in Counter(card.queue for card in cards).items():
        assert count <= free(lanes, queue)


@given(hands(), rooms)
def test_a_pass_deals_rows_of_its_lanes_each_once(hand, room):
    lanes, rows = hand
    known = {(lane.queue, row) for lane in lanes for row in rows[lane]}
    cards = [(card.queue, card.urgency) for card in deal(lanes, rows, room)]
    assert len(set(cards)) == len(cards)
    assert set(cards) <= known


@given(hands(suspects=False), rooms)
def test_no_place_stays_empty_that_a_job_could_take(hand, room):
    lanes, rows = hand
    playable = {
        queue: min(
            free(lanes, queue),
            sum(len(rows[lane]) for lane in lanes if lane.queue == queue),
        )
        for queue in {lane.queue for lane in lanes}
    }
    assert min(room, sum(playable.values())) == len(deal(lanes, rows, room))


@given(hands(), rooms)
def test_a_pass_deals_at_most_one_suspect(hand, room):
    lanes, rows = hand
    suspects = {row for lane in lanes if lane.suspect for row in rows[lane]}
    assert len(suspects & {card.urgency for card in deal(lanes, rows, room)}) <= 1


@given(hands(), rooms)
def test_a_pass_is_what_dealing_one_card_after_another_gives(hand, room):
    """The rule as people would play it, card by card."""
    lanes, rows = hand
    waiting = {
        queue: sorted((row, ln.suspect) for ln in lanes if ln.queue == queue for row in rows[ln])
        for queue in {lane.queue for lane in lanes}
    }
    place = {lane.queue: lane for lane in lanes}
    taken: Counter[str] = Counter()
    dealt: list[tuple[int, int]] = []
    suspect_dealt = False
    while len(dealt) < room:
        offers = []
        for queue, lane in place.items():
            playable = [card for card in waiting[queue] if not (card[1] and suspect_dealt)]
            if playable and taken[queue] < free(lanes, queue):
                at = lane.served + taken[queue] * lane.cost
                offers.append((at, lane.turn, playable[0], queue))
        if not offers:
            break
        _, _, card, queue = min(offers)
        waiting[queue].remove(card)
        taken[queue] += 1
        suspect_dealt = suspect_dealt or card[1]
        dealt.append(card[0])
    assert dealt == [card.urgency for card in deal(lanes, rows, room)]


@given(hands(), rooms)
def test_priority_orders_within_a_queue(hand, room):
    lanes, rows = hand
    cards = deal(lanes, rows, room)
    for queue in {card.queue for card in cards}:
        mine = [card.urgency for card in cards if card.queue == queue]
        assert sorted(mine) == mine
        plain = [r for ln in lanes if ln.queue == queue and not ln.suspect for r in rows[ln]]
        assert all(row in mine for row in plain if row < mine[-1])


@given(hands(suspects=False), rooms, st.data())
def test_priority_never_orders_between_queues(hand, room, data):
    lanes, rows = hand
    other = {
        lane: sorted((data.draw(st.integers(-100, 100)), number) for _, number in found)
        for lane, found in rows.items()
    }
    before, after = deal(lanes, rows, room), deal(lanes, other, room)
    assert [card.queue for card in before] == [card.queue for card in after]


# Any weights, over time.

weights = st.lists(st.integers(1, 1000), min_size=1, max_size=6).map(
    lambda found: dict(zip(QUEUES, found, strict=False)),
)
any_weights = weights | st.sampled_from(list(permutations(PRIMES, 6))[:120]).map(
    lambda found: dict(zip(QUEUES, found, strict=True)),
)
visits = st.lists(st.tuples(rooms, st.sets(st.sampled_from(QUEUES))), max_size=30)


@given(any_weights)
def test_a_job_costs_its_queue_in_inverse_proportion_to_the_weight(given_weights):
    turns = Turns(given_weights)
    scale = turns.cost("not named")
    for queue, weight in given_weights.items():
        assert 1 <= turns.cost(queue) <= FINEST
        assert abs(Fraction(turns.cost(queue) * weight, scale) - 1) < Fraction(1, 10**6)


@given(any_weights, st.lists(rooms, min_size=1, max_size=80))
def test_shares_are_in_proportion_to_the_weights_over_any_stretch(given_weights, passes):
    """Over every stretch of time each queue's time is within one job of every other's."""
    worker = Worker(given_weights)
    cost = {queue: worker.turns.cost(queue) for queue in worker.queues}
    spent = [dict.fromkeys(worker.queues, 0)]
    for room in passes:
        for queue in worker.deal(room):
            spent.append({**spent[-1], queue: spent[-1][queue] + cost[queue]})
    for one, other in permutations(worker.queues, 2):
        lead = [now[one] - now[other] for now in spent]
        assert max(lead) - min(lead) <= cost[one] + cost[other]


@given(any_weights, visits, st.sampled_from(QUEUES))
def test_no_queue_starves_whatever_the_others_do(given_weights, others, patient):
    """While it waits for a card, each other queue gets what its weight allows, and no more."""
    worker = Worker({**dict.fromkeys(QUEUES, 1), **given_weights})
    cost = {queue: worker.turns.cost(queue) for queue in worker.queues}
    dealt: list[str] = []
    for room, backlogged in others:
        dealt += worker.deal(room, backlogged=backlogged | {patient})
    served = [-1, *(n for n, queue in enumerate(dealt) if queue == patient)]
    for last, following in pairwise([*served, len(dealt)]):
        meanwhile = Counter(dealt[last + 1 : following])
        for queue, count in meanwhile.items():
            assert count <= cost[patient] // cost[queue] + 1


@given(any_weights, visits, st.lists(rooms, min_size=1, max_size=30))
def test_who_comes_back_saved_up_nothing_and_owes_nothing(given_weights, past, passes):
    """Whatever was before: once all are backlogged, no queue is ahead by more than a job."""
    worker = Worker(given_weights)
    for room, backlogged in past:
        worker.deal(room, backlogged=backlogged)
    spent = dict.fromkeys(worker.queues, 0)
    for room in passes:
        for queue in worker.deal(room):
            spent[queue] += worker.turns.cost(queue)
            for one, other in permutations(worker.queues, 2):
                most = worker.turns.cost(one) + worker.turns.cost(other)
                assert spent[one] - spent[other] <= most


@given(any_weights, visits, st.data())
def test_memory_is_at_most_one_job_a_queue_and_fits_the_database(given_weights, past, data):
    """Also when other workers took some of the cards: those are not in ``taken``."""
    turns = Turns(given_weights)
    for room, backlogged in past:
        lanes = [
            Lane(queue, 8, 0, turns.served(queue), turns.cost(queue), turn)
            for turn, queue in enumerate(QUEUES)
        ]
        rows = {lane: [(0, n) for n in range(room)] for lane in lanes if lane.queue in backlogged}
        cards = deal(lanes, rows, room)
        if cards:
            kept = [card for card in cards if data.draw(st.booleans())]
            turns.advance(Counter(card.queue for card in kept), cards[-1].at)
        for queue in QUEUES:
            assert 0 <= turns.served(queue) <= turns.cost(queue)
            assert turns.served(queue) + 1000 * turns.cost(queue) <= BIGINT
