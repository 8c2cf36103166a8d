"""Jobs that wait for others: freed once all have ended, cancelled once with a failed one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from django_jobs.exceptions import UnknownParent
from django_jobs.models import Dependency, Event, Job
from django_jobs.operations import free
from django_jobs.operations.follow import follow
from django_jobs.operations.free import Freed, set_free, strays
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.purge import Purged, purge
from django_jobs.operations.requeue import Requeued, requeue
from django_jobs.states import FAILED
from tests.operations.desk import Desk, desks, job_row, jobs, kinds, succeeded
from tests.operations.ended import ANA, ended, paused_at_the_gate
from tests.tasks import ok

pytestmark = pytest.mark.django_db(transaction=True)


def tied(*parents: int, **columns: Any) -> int:
    """Insert a job that waits for ``parents``."""
    [child] = jobs(state="waiting", **columns)
    tie(parents, child)
    return child


def tie(parents: Iterable[int], *children: int) -> None:
    Dependency.objects.bulk_create(
        Dependency(parent=parent, child=child) for parent in parents for child in children
    )


def end(*ids: int, state: str = "succeeded") -> None:
    Job.objects.filter(pk__in=ids).update(state=state, finished_at=Now())


def freed_by(desk: Desk, *parents: int, **given: Any) -> dict[int, str]:
    freed = set_free(parents, worker=desk.id, database=desk.database, **given)
    return {job.id: job.state for job in freed}


def states(*ids: int) -> list[str]:
    return [job_row(pk).state for pk in ids]


def test_a_child_is_freed_by_the_last_of_its_parents_and_not_before(pair: list[Desk]) -> None:
    one, two = jobs(2)
    child = tied(one, two)
    end(one)
    assert {} == freed_by(pair[0], one)
    end(two)
    assert {child: "ready"} == freed_by(pair[0], two)
    assert {} == freed_by(pair[0], two)
    assert [] == kinds(child)


def test_two_parents_that_end_at_once_do_not_strand_their_child(pair: list[Desk]) -> None:
    """Each settle sees the other parent running; so the freeing comes after both commits."""
    one, two = pair
    parents = jobs(2)
    child = tied(*parents)
    [first], [second] = one.claim(room=1), two.claim(room=1)
    with two.open().transaction():
        ended = two.settle(succeeded(second))
        assert [] == follow(one.settle(succeeded(first)), worker=one.id, database=one.database)
        assert "waiting" == job_row(child).state
    [freed] = follow(ended, worker=two.id, database=two.database)
    assert Freed(child, "default", "ready", "default") == freed


def test_two_that_free_the_same_child_free_it_once_and_wait_for_nobody(pair: list[Desk]) -> None:
    one, two = pair
    [parent] = jobs()
    child = tied(parent)
    end(parent)
    with one.open().transaction():
        assert {child: "ready"} == freed_by(one, parent)
        assert {} == freed_by(two, parent)
    assert "ready" == job_row(child).state


@pytest.mark.parametrize("state", sorted(FAILED))
def test_a_parent_that_failed_cancels_all_behind_it_once_each(
    state: str, pair: list[Desk]
) -> None:
    [root] = jobs()
    left, right = tied(root), tied(root)
    last = tied(left, right)
    end(root, state=state)
    behind = {left: "cancelled", right: "cancelled", last: "cancelled"}
    assert behind == freed_by(pair[0], root)
    assert {} == freed_by(pair[0], root)
    for child in behind:
        [event] = Event.objects.filter(job_id=child)
        assert ("cancelled", {"reason": "parent"}) == (event.kind, event.data)
        assert job_row(child).finished_at is not None


def test_a_failed_parent_cancels_a_child_whose_other_parent_still_runs(pair: list[Desk]) -> None:
    bad, good = jobs(2)
    child = tied(bad, good)
    end(bad, state="dead")
    assert {child: "cancelled"} == freed_by(pair[0], bad)


def test_the_wake_of_a_sibling_between_a_death_and_its_own_wake_frees_nothing(
    pair: list[Desk],
) -> None:
    bad, good = jobs(2)
    child = tied(bad, good)
    end(bad, state="dead")
    end(good)
    assert {} == freed_by(pair[0], good)
    assert {child: "cancelled"} == freed_by(pair[0], bad)


def test_after_failure_runs_whatever_way_the_parents_ended(pair: list[Desk]) -> None:
    bad, good = jobs(2)
    child = tied(bad, good, after_failure=True)
    end(bad, state="dead")
    assert {} == freed_by(pair[0], bad)
    end(good)
    assert {child: "ready"} == freed_by(pair[0], good)


def test_after_failure_behind_a_cancelled_child_is_freed_in_the_same_act(
    pair: list[Desk],
) -> None:
    [root] = jobs()
    middle = tied(root)
    last = tied(middle, after_failure=True)
    behind = tied(last)
    end(root, state="dead")
    assert {middle: "cancelled", last: "ready"} == freed_by(pair[0], root)
    assert "waiting" == job_row(behind).state


def test_a_child_that_somebody_holds_is_left_to_the_sweeper_with_what_follows_it(
    pair: list[Desk],
) -> None:
    one, two = pair
    [root] = jobs()
    middle = tied(root)
    last = tied(root, middle, after_failure=True)
    end(root, state="dead")
    with two.open().transaction():
        two.open().execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [middle])
        assert {} == freed_by(one, root)
    assert ["waiting", "waiting"] == states(middle, last)
    found, _ = strays(after=0, database=one.database)
    assert {middle: "cancelled", last: "ready"} == freed_by(one, children=found)


def test_a_parent_whose_hand_back_a_cancel_has_ended_cancels_its_child(pair: list[Desk]) -> None:
    one, _ = pair
    [parent] = jobs()
    child = tied(parent)
    [claimed] = one.claim()
    Job.objects.filter(pk=parent).update(cancel_asked_at=Now())
    outcome = handed_back(lease=claimed.lease, job=parent, reason="drain")
    [freed] = follow(one.settle(outcome), worker=one.id, database=one.database)
    assert (child, "cancelled") == (freed.id, freed.state)


def test_a_child_whose_time_is_to_come_is_scheduled(pair: list[Desk]) -> None:
    [parent] = jobs()
    late, due = tied(parent, run_after="2100-01-01T00:00Z"), tied(parent, run_after=Now())
    end(parent)
    assert {late: "scheduled", due: "ready"} == freed_by(pair[0], parent)


def test_a_parent_that_has_not_ended_frees_and_cancels_nothing(pair: list[Desk]) -> None:
    [parent] = jobs()
    child = tied(parent)
    assert {} == freed_by(pair[0], parent)
    assert {} == freed_by(pair[0], children=[child])


def test_a_child_is_judged_by_its_own_parents_and_its_siblings_stay(pair: list[Desk]) -> None:
    good, bad = jobs(2)
    freed, doomed, sibling = tied(good), tied(bad), tied(good)
    anyway = tied(bad, after_failure=True)
    end(good)
    end(bad, state="expired")
    found = freed_by(pair[0], children=[freed, doomed, anyway])
    assert {freed: "ready", doomed: "cancelled", anyway: "ready"} == found
    assert "waiting" == job_row(sibling).state


def test_a_diamond_of_a_thousand_ends_in_order_and_is_cancelled_as_a_whole(
    pair: list[Desk],
) -> None:
    [root, again] = jobs(2)
    middle, [last] = jobs(998, state="waiting"), jobs(1, state="waiting")
    tie([root], *middle)
    tie([again], *middle)
    tie(middle, last)
    end(root, again)
    assert dict.fromkeys(middle, "ready") == freed_by(pair[0], root)
    end(*middle[:-1])
    assert {} == freed_by(pair[0], *middle[:-1])
    end(middle[-1])
    assert {last: "ready"} == freed_by(pair[0], middle[-1])
    Job.objects.filter(pk__in=[*middle, last]).update(state="waiting", finished_at=None)
    end(root, state="dead")
    assert 999 == len(freed_by(pair[0], root))
    assert 999 == Event.objects.filter(kind="cancelled").count()


@pytest.fixture
def bells() -> Iterator[Callable[[], list[str]]]:
    """Listen as a worker does; the value is a function that returns what rang."""
    with desks("listener") as [listener]:
        listener.database.fetch("idle", {"worker": listener.id, "idle": True})
        listener.open().execute("LISTEN django_jobs")
        yield lambda: [notice.payload for notice in listener.open().notifies(timeout=0.1)]


def test_one_bell_a_queue_rings_for_those_that_sleep(
    pair: list[Desk], bells: Callable[[], list[str]]
) -> None:
    [parent] = jobs()
    for queue in ("default", "default", "mail"):
        tied(parent, queue=queue)
    end(parent)
    freed_by(pair[0], parent)
    assert ["default default", "mail default"] == sorted(bells())


def test_no_bell_rings_for_the_cancelled_and_those_of_later(
    pair: list[Desk], bells: Callable[[], list[str]]
) -> None:
    good, bad = jobs(2)
    tied(good, run_after="2100-01-01T00:00Z")
    tied(bad)
    end(good)
    end(bad, state="dead")
    assert 2 == len(freed_by(pair[0], good, bad))
    assert [] == bells()


# strays


def test_a_look_finds_the_strays_among_many_that_wait_in_stretches(
    pair: list[Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free, "NEWEST", 1)
    monkeypatch.setattr(free, "STRETCH", 2)
    parent, gone = jobs(2)
    waiting = [tied(parent) for _ in range(2)] + [tied(gone)] + [tied(parent) for _ in range(2)]
    newest = tied(gone)
    end(gone)
    database = pair[0].database
    first, after = strays(after=0, database=database)
    second, onwards = strays(after=after, database=database)
    third, begin = strays(after=onwards, database=database)
    assert ([newest], waiting[1]) == (first, after)
    assert ({waiting[2], newest}, waiting[3]) == (set(second), onwards)
    assert ([newest], newest) == (third, begin)
    assert ([newest], 0) == strays(after=begin, database=database)


def test_one_whose_other_parent_still_runs_is_a_stray_only_when_it_is_doomed(
    pair: list[Desk],
) -> None:
    good, bad, running = jobs(3)
    tied(good, running)
    tied(bad, running, after_failure=True)
    doomed = tied(bad, running)
    end(good)
    end(bad, state="dead")
    assert [doomed] == strays(after=0, database=pair[0].database)[0]


# enqueue


def test_a_job_that_is_enqueued_behind_others_waits(pair: list[Desk]) -> None:
    parents = [ok.enqueue(1), ok.enqueue(2)]
    child = ok.using(depends_on=parents).enqueue(3)
    assert "waiting" == child.state == job_row(int(child.id)).state
    assert {(int(parent.id), int(child.id)) for parent in parents} == set(
        Dependency.objects.values_list("parent", "child")
    )


def test_a_job_behind_one_that_has_ended_is_ready_at_once() -> None:
    parent = ok.enqueue(1)
    end(int(parent.id))
    child = ok.using(depends_on=[parent]).enqueue(2)
    child.refresh()
    assert "ready" == child.state


def test_a_job_behind_one_that_has_failed_is_cancelled_at_once_and_announced() -> None:
    from django_jobs.compat import task_finished

    told: list[str] = []

    def note(sender: object, task_result: Any, **_: object) -> None:
        told.append(task_result.id)

    [parent] = ended()
    task_finished.connect(note)
    try:
        child = ok.using(depends_on=[parent]).enqueue(2)
    finally:
        task_finished.disconnect(note)
    child.refresh()
    assert ("cancelled", [child.id]) == (child.state, told)


@pytest.mark.parametrize("many", [False, True])
def test_a_parent_that_ends_while_its_child_is_enqueued_is_seen_after_the_commit(
    pair: list[Desk], many: bool
) -> None:
    [one, _] = pair
    parent = ok.enqueue(1)
    [claimed] = one.claim()
    behind = ok.using(depends_on=[parent])
    with transaction.atomic():
        child = behind.enqueue_many([behind.s(2)])[0] if many else behind.enqueue(2).id
        [answer] = one.settle(succeeded(claimed))  # whom the open transaction does not stop
        assert not answer.has_children
        assert [] == follow([answer], worker=one.id, database=one.database)
    assert "ready" == job_row(int(child)).state


@pytest.mark.parametrize("many", [False, True])
def test_a_parent_that_is_not_there_is_told_and_nothing_is_inserted(many: bool) -> None:
    parent = ok.enqueue(1)
    behind = ok.using(depends_on=[parent, 10**12])
    with transaction.atomic():
        with pytest.raises(UnknownParent, match=str(10**12)) as caught:
            behind.enqueue_many([ok.s(0), behind.s(2)]) if many else behind.enqueue(2)
        assert (10**12,) == caught.value.parents
        assert 1 == Job.objects.count()  # and the caller's transaction goes on


@pytest.mark.parametrize("given", ["x", "0", "-1", str(2**63), True])
def test_what_is_no_id_is_told_and_nothing_is_inserted(given: Any) -> None:
    with pytest.raises(UnknownParent, match="not the id of a job"):
        ok.using(depends_on=[given]).enqueue(1)
    assert 0 == Job.objects.count()


def test_a_job_of_another_backend_is_no_parent() -> None:
    [foreign] = jobs(backend="other")
    with pytest.raises(UnknownParent, match="alias 'default'"):
        ok.using(depends_on=[foreign]).enqueue(1)
    with pytest.raises(UnknownParent):
        ok.enqueue_many([ok.using(depends_on=[foreign]).s(1)])


def test_a_bare_result_is_no_list_of_parents() -> None:
    parent = ok.enqueue(1)
    for given in (parent, parent.id, int(parent.id)):
        with pytest.raises(TypeError, match="must be a list"):
            ok.using(depends_on=given)  # type: ignore[arg-type]


def test_many_behind_one_are_one_statement_and_one_look() -> None:
    parent = ok.enqueue(1)
    behind = ok.using(depends_on=[parent])
    with CaptureQueriesContext(connection) as captured:
        ids = behind.enqueue_many([behind.s(number) for number in range(50)])
    assert 2 == len(captured.captured_queries)
    assert ["waiting"] * 50 == states(*map(int, ids))


def test_a_transaction_looks_once_for_all_its_children() -> None:
    parent = ok.enqueue(1)
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        for number in range(5):
            ok.using(depends_on=[parent]).enqueue(number)
    looks = [query["sql"] for query in captured.captured_queries if "doomed" in query["sql"]]
    assert 1 == len(looks)


def test_who_has_no_parents_pays_nothing() -> None:
    ok.enqueue(0)  # the first of a process asks who could run it
    with CaptureQueriesContext(connection) as captured:
        ok.enqueue(1)
    assert 1 == len(captured.captured_queries)
    with desks("one") as [one]:
        ended = one.settle(*map(succeeded, one.claim()))
    assert not any(answer.has_children for answer in ended)


# purge and requeue


def away(*ids: int) -> Purged:
    return purge(ids, actor=ANA, database="default")


def test_a_parent_with_a_live_child_is_not_purged() -> None:
    [parent] = ended()
    child = tied(parent, after_failure=True)
    assert Purged(0, {parent: "live children"}) == away(parent)
    end(child)
    assert Purged(1, {}) == away(parent)
    assert 0 == Dependency.objects.count()


def test_the_ties_of_a_child_go_with_it() -> None:
    [parent] = ended(1, "succeeded")
    child, other = tied(parent), tied(parent)
    end(child)
    assert Purged(1, {}) == away(child)
    assert [(parent, other)] == list(Dependency.objects.values_list("parent", "child"))


def test_a_child_that_is_enqueued_before_the_purge_locks_keeps_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [parent] = ended(1, "succeeded")
    with paused_at_the_gate("purge_lock", lambda: away(parent), monkeypatch) as late:
        child = tied(parent)
    assert Purged(0, {parent: "live children"}) == late.result(timeout=5)
    assert "waiting" == job_row(child).state


def test_a_child_that_is_enqueued_during_the_purge_waits_for_it_and_is_refused(
    pair: list[Desk],
) -> None:
    [parent] = ended(1, "succeeded")
    one = pair[0].open()
    with one.transaction():
        one.execute("SELECT FROM django_jobs_job WHERE id = %s FOR UPDATE", [parent])
        one.execute("DELETE FROM django_jobs_job WHERE id = %s", [parent])
        with pytest.raises(Exception, match="lock timeout"):
            ok.using(depends_on=[parent]).enqueue(1)
    with pytest.raises(UnknownParent):
        ok.using(depends_on=[parent]).enqueue(1)


def again(*ids: int) -> Requeued:
    return requeue(ids, actor=ANA, database="default")


@pytest.mark.parametrize("state", sorted(FAILED))
def test_a_job_whose_parent_failed_is_not_requeued(state: str) -> None:
    [parent], [child, other] = ended(1, state), ended(2, "cancelled")
    tie([parent], child, other)
    Job.objects.filter(pk=other).update(after_failure=True)
    assert Requeued(1, {child: "parent dead"}) == again(child, other)
    assert ["cancelled", "ready"] == states(child, other)


def test_a_job_whose_parent_has_not_ended_is_not_requeued() -> None:
    [parent], [child], [other] = jobs(), ended(1, "cancelled"), ended(1, after_failure=True)
    tie([parent], child, other)
    assert Requeued(0, {child: "parent live", other: "parent live"}) == again(child, other)
    end(parent)
    assert Requeued(2, {}) == again(child, other)
