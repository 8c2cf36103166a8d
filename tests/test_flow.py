"""Chains, groups and what comes after them are jobs and dependencies, all or none."""

from __future__ import annotations

from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from django_jobs import chain, group
from django_jobs.compat import InvalidTask, task_enqueued
from django_jobs.models import Dependency, Event, Job
from django_jobs.tasks.flow import Flow
from django_jobs.testing import run_jobs
from tests.aliases import put_backends
from tests.tasks import boom, ok

pytestmark = pytest.mark.django_db(transaction=True)


def ties(results: list[Any]) -> set[tuple[int, int]]:
    """Who waits for whom, by their places in the flow: parent and child."""
    places = {int(result.id): place for place, result in enumerate(results)}
    rows = Dependency.objects.values_list("parent", "child")
    return {(places[parent], places[child]) for parent, child in rows}


def states(results: list[Any]) -> list[str]:
    for result in results:
        result.refresh()
    return [result.state for result in results]


def values(results: list[Any]) -> list[Any]:
    return [result.args[0] for result in results]


def test_a_chain_runs_in_its_order() -> None:
    results = chain(ok.s(1), ok.s(2), ok.s(3)).enqueue()
    assert ["ready", "waiting", "waiting"] == [result.state for result in results]
    assert {(0, 1), (1, 2)} == ties(results)
    assert [int(result.id) for result in results] == run_jobs().succeeded


def test_after_a_failure_in_a_chain_the_rest_is_cancelled_and_announced_once() -> None:
    results = chain(ok.s(1), boom.s("no"), ok.s(3), ok.s(4)).enqueue()
    ran = run_jobs()
    assert ["succeeded", "dead", "cancelled", "cancelled"] == states(results)
    assert [int(result.id) for result in results[1:]] == ran.ended
    assert 2 == Event.objects.filter(kind="cancelled").count()


def test_the_callback_of_a_group_waits_for_all_of_it() -> None:
    results = group([ok.s(n) for n in range(3)]).then(ok.s("last")).enqueue()
    assert [0, 1, 2, "last"] == values(results)
    assert {(0, 3), (1, 3), (2, 3)} == ties(results)
    assert int(results[-1].id) == run_jobs().succeeded[-1]


def test_the_callback_of_a_group_that_failed_in_part_runs_only_if_it_says_so() -> None:
    failing = group([ok.s(1), boom.s("no")])
    only, always = failing.then(ok.s("only")), failing.then(ok.s("always"), after_failure=True)
    first, second = only.enqueue(), always.enqueue()
    run_jobs()
    assert ["succeeded", "dead", "cancelled"] == states(first)
    assert ["succeeded", "dead", "succeeded"] == states(second)


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (chain(ok.s(0), group([ok.s(1), ok.s(2)]), ok.s(3)), {(0, 1), (0, 2), (1, 3), (2, 3)}),
        (group([chain(ok.s(0), ok.s(1)), ok.s(2)]).then(ok.s(3)), {(0, 1), (1, 3), (2, 3)}),
        (chain(ok.s(0), group([]), ok.s(1)), {(0, 1)}),
        (chain(group([ok.s(0), ok.s(1)]), group([ok.s(2)])), {(0, 2), (1, 2)}),
        (group([]).then(ok.s(0)), set()),
        (chain(ok.s(0)).then(ok.s(1)).then(ok.s(2)), {(0, 1), (1, 2)}),
        (chain(ok.s(0)).then(ok.s(1), ok.s(2)), {(0, 1), (1, 2)}),
    ],
)
def test_flows_nest(flow: Flow, expected: set[tuple[int, int]]) -> None:
    results = flow.enqueue()
    assert list(range(len(results))) == values(results)
    assert expected == ties(results)
    assert len(results) == len(run_jobs().succeeded)


def test_an_empty_flow_enqueues_nothing() -> None:
    assert [] == chain().enqueue() == group([]).enqueue() == group([chain()]).enqueue()
    assert 0 == Job.objects.count()


def test_a_flow_may_depend_on_jobs_before_it() -> None:
    before = ok.enqueue("before")
    results = chain(ok.using(depends_on=[before]).s(1), ok.s(2)).enqueue()
    assert {("before", 1), (1, 2)} == {
        (Job.objects.get(pk=parent).args[0], Job.objects.get(pk=child).args[0])
        for parent, child in Dependency.objects.values_list("parent", "child")
    }
    assert int(results[-1].id) == run_jobs().succeeded[-1]


def test_a_diamond_of_a_thousand_is_a_handful_of_statements_in_one_transaction() -> None:
    flow = chain(ok.s(0), group([ok.s(n) for n in range(998)]), ok.s(999))
    with CaptureQueriesContext(connection) as captured:
        results = flow.enqueue()
    words = [query["sql"].split()[0] for query in captured.captured_queries]
    assert ["BEGIN", "WITH", "WITH", "WITH", "COMMIT"] == words[:5]
    assert len(words) <= 8  # after the commit: the bell, the look at what waits, the forecast
    assert 2 * 998 == Dependency.objects.count()
    assert ["ready", "waiting"] == [results[0].state, results[-1].state]


def test_a_fault_in_one_call_enqueues_and_tells_of_none() -> None:
    told: list[Any] = []

    def note(**given: Any) -> None:
        told.append(given)

    task_enqueued.connect(note)
    try:
        with pytest.raises(TypeError, match="Item 1"):
            chain(ok.s(1), ok.s(1, 2, 3, 4)).enqueue()  # type: ignore[call-arg]
        with pytest.raises(LookupError):
            chain(ok.s(1), ok.using(depends_on=[10**12]).s(2)).enqueue()
    finally:
        task_enqueued.disconnect(note)
    assert [] == told
    assert 0 == Job.objects.count()


def test_a_callers_rollback_takes_the_whole_flow() -> None:
    with transaction.atomic():
        chain(ok.s(1), ok.s(2)).enqueue()
        transaction.set_rollback(True)
    assert (0, 0) == (Job.objects.count(), Dependency.objects.count())


def test_what_is_no_call_is_told_with_its_place() -> None:
    for flow in (
        lambda: chain(ok.s(1), cast("Any", ok)),
        lambda: group([ok.s(1), cast("Any", 2)]),
    ):
        with pytest.raises(TypeError, match=r"Item 1 of .*task\.s"):
            flow()
    with pytest.raises(TypeError, match="after_failure"):
        chain(ok.s(1)).then(group([ok.s(2)]), after_failure=True)


def test_calls_of_two_backends_cannot_wait_for_each_other(settings: Any) -> None:
    put_backends(settings)
    with pytest.raises(InvalidTask, match="'default', 'second'"):
        chain(ok.s(1), ok.using(backend="second").s(2)).enqueue()


def test_the_backends_of_django_run_a_flow_in_its_order(settings: Any) -> None:
    put_backends(settings)
    here = ok.using(backend="immediate")
    results = chain(here.s(1), group([here.s(2), here.s(3)])).then(here.s(4)).enqueue()
    assert [1, 2, 3, 4] == [result.return_value for result in results]
    assert 0 == Job.objects.count()


def test_a_coroutine_enqueues_a_flow_too() -> None:
    results = async_to_sync(chain(ok.s(1), ok.s(2)).aenqueue)()
    assert {(0, 1)} == ties(results)


class InsideATestCase(TestCase):
    """Where nothing is ever committed."""

    def test_a_job_runs_after_the_one_that_it_depends_on(self) -> None:
        first = ok.enqueue(1)
        child = ok.using(depends_on=[first], priority=100).enqueue(2)
        assert [int(first.id), int(child.id)] == run_jobs().succeeded

    def test_a_job_behind_one_that_has_run_already_runs(self) -> None:
        first = ok.enqueue(1)
        run_jobs()
        child = ok.using(depends_on=[first]).enqueue(2)
        assert [int(child.id)] == run_jobs().succeeded

    def test_a_job_behind_one_that_has_died_already_is_cancelled(self) -> None:
        first = boom.enqueue("no")
        run_jobs()
        child = ok.using(depends_on=[first]).enqueue(2)
        assert [int(child.id)] == run_jobs().ended
