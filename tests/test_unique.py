"""Unique keys as users say them: what a second enqueue gets, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs import task
from django_jobs.compat import InvalidTask, task_enqueued
from django_jobs.exceptions import AlreadyEnqueued, InvalidLimit
from django_jobs.models import Event, Job
from django_jobs.states import FINAL
from tests.aliases import only_job, put_backends
from tests.operations.ended import ended, live
from tests.sample_tasks import add, echo, send, undecorated

pytestmark = pytest.mark.django_db

once: Any = add.using(unique="sum:{a}")
strict: Any = once.using(on_conflict="raise")
newest: Any = once.using(on_conflict="replace")


@pytest.fixture
def sent() -> Iterator[list[str]]:
    """Note the id of each task_enqueued."""
    noted: list[str] = []

    def note(*, task_result: Any, **_: Any) -> None:
        noted.append(task_result.id)

    task_enqueued.connect(note)
    yield noted
    task_enqueued.disconnect(note)


# The answer "return"


def test_a_second_enqueue_gets_the_live_job_with_its_own_arguments(sent):
    first = once.enqueue(1, b=2)
    second = once.using(priority=9).enqueue(1, b=3)
    assert (True, False) == (first.created, second.created)
    assert (first.id, [1], {"b": 2}, 0) == (
        second.id, second.args, second.kwargs, second.task.priority,
    )  # fmt: skip
    assert (first.enqueued_at, first.state) == (second.enqueued_at, second.state)
    assert 1 == Job.objects.count()
    assert [first.id] == sent


def test_the_result_of_a_running_job_says_so():
    first = once.enqueue(1)
    Job.objects.update(state="running", attempt=1)
    second = once.enqueue(1)
    assert (first.id, "running", False) == (second.id, second.state, second.created)
    second.refresh()
    assert second.created is False


def test_a_coroutine_gets_the_live_job_too():
    first = once.enqueue(1)
    assert first.id == async_to_sync(once.aenqueue)(1).id


def test_another_key_another_job():
    once.enqueue(1)
    assert once.enqueue(2).created
    assert ["sum:1", "sum:2"] == list(
        Job.objects.order_by("id").values_list("unique_key", flat=True)
    )


def test_a_key_is_shared_by_tasks_that_make_the_same():
    first = once.enqueue(1)
    assert first.id == send.using(unique="sum:{order}").enqueue(1, customer=7).id


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_job_that_has_ended_holds_no_key(state):
    ended(1, state, unique_key="sum:1")
    assert once.enqueue(1).created


@pytest.mark.parametrize("state", ["waiting", "scheduled", "ready", "blocked", "running"])
def test_every_live_state_holds_the_key(state):
    pk = live(state)
    Job.objects.update(unique_key="sum:1")
    assert (str(pk), False) == (once.enqueue(1).id, once.enqueue(1).created)


def test_each_backend_alias_has_keys_of_its_own(settings):
    put_backends(settings)
    first = once.enqueue(1)
    second = once.using(backend="second").enqueue(1)
    assert (True, True) == (first.created, second.created)
    assert first.id != second.id


def test_enqueue_on_commit_gives_way_to_the_live_job(django_capture_on_commit_callbacks, sent):
    first = once.enqueue(1)
    with django_capture_on_commit_callbacks(execute=True):
        once.enqueue_on_commit(1)
    assert first.id == str(only_job().pk)
    assert [first.id] == sent


def test_a_new_key_costs_one_statement_and_a_taken_one_two():
    with CaptureQueriesContext(connection) as made:
        once.enqueue(1)
    with CaptureQueriesContext(connection) as taken:
        once.enqueue(1)
    assert 1 == sum("INSERT" in query["sql"] for query in made)
    assert 2 == len([q for q in taken if "django_jobs_job" in q["sql"]])


# The answer "raise"


def test_raise_names_the_key_and_the_live_job_and_leaves_the_transaction_usable(sent):
    first = strict.enqueue(1)
    with transaction.atomic():
        with pytest.raises(AlreadyEnqueued, match=r"'sum:1' is taken by the live job \d+;") as got:
            strict.enqueue(1)
        assert ("sum:1", first.id) == (got.value.key, got.value.job)
        assert strict.enqueue(2).created
    assert 2 == Job.objects.count() == len(sent)


# The answer "replace"


def test_replace_cancels_the_live_job_and_tells_why():
    first = newest.enqueue(1)
    second = newest.enqueue(1, b=2)
    assert second.created
    assert [("cancelled", True), ("ready", False)] == [
        (job.state, job.finished_at is not None) for job in Job.objects.order_by("id")
    ]
    event = Event.objects.get(kind="cancelled")
    assert (first.id, {"reason": "replaced"}) == (str(event.job_id), event.data)


@pytest.mark.parametrize("state", ["waiting", "scheduled", "ready", "blocked"])
def test_replace_takes_the_place_of_whatever_does_not_run(state):
    pk = live(state)
    Job.objects.update(unique_key="sum:1")
    assert newest.enqueue(1).created
    assert "cancelled" == Job.objects.get(pk=pk).state


def test_replace_leaves_a_running_job_alone_and_says_so():
    first = newest.enqueue(1)
    Job.objects.update(state="running", attempt=1)
    with pytest.raises(AlreadyEnqueued) as got:
        newest.enqueue(1)
    assert first.id == got.value.job
    assert ("running", 0) == (only_job().state, Event.objects.count())


# enqueue_many


def test_enqueue_many_answers_two_calls_of_one_key_with_one_job(sent):
    ids = add.enqueue_many([once.s(2), add.s(7), once.s(1), once.s(2, b=5)])
    assert ids[0] == ids[3]
    assert 3 == Job.objects.count() == len(set(ids)) == len(sent)
    assert [[2], [7], [1], [2]] == [Job.objects.get(pk=pk).args for pk in ids]


def test_enqueue_many_answers_with_the_live_job():
    first = once.enqueue(1)
    ids = add.enqueue_many([once.s(2), once.s(1)])
    assert first.id == ids[1] != ids[0]
    assert 2 == Job.objects.count()


def test_enqueue_many_answers_across_its_batches(monkeypatch):
    monkeypatch.setattr("django_jobs.operations.enqueue.BATCH", 2)
    ids = add.enqueue_many([once.s(n % 3) for n in (2, 1, 0, 2, 1, 0, 2)])
    assert 3 == Job.objects.count() == len(set(ids))
    assert [2, 1, 0, 2, 1, 0, 2] == [Job.objects.get(pk=pk).args[0] for pk in ids]


def test_enqueue_many_with_raise_inserts_all_or_none(monkeypatch, sent):
    monkeypatch.setattr("django_jobs.operations.enqueue.BATCH", 1)
    first = once.enqueue(2)
    with pytest.raises(AlreadyEnqueued) as got:
        add.enqueue_many([add.s(0), strict.s(1), strict.s(2)])
    assert ("sum:2", first.id) == (got.value.key, got.value.job)
    assert 1 == Job.objects.count() == len(sent)


def test_enqueue_many_with_raise_refuses_two_calls_of_one_key():
    with (
        CaptureQueriesContext(connection) as queries,
        pytest.raises(AlreadyEnqueued, match="'sum:1'"),
    ):
        add.enqueue_many([once.s(1), strict.s(1)])
    assert 0 == len(queries)


def test_enqueue_many_replaces_nothing():
    with pytest.raises(ValueError, match="Item 1: enqueue_many replaces no job; enqueue it apart"):
        add.enqueue_many([once.s(1), newest.s(2)])
    assert not Job.objects.exists()


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unique": "sum:{c}"}, "no argument 'c'"),
        ({"unique": "sum:{a.real}"}, "names of arguments"),
        ({"unique": "sum:{"}, "cannot be read"),
        ({"unique": ""}, "unique is ''"),
        ({"unique": 7}, "unique is 7"),
        ({"unique": "x" * 201}, "200 characters"),
        ({"unique": "{a}", "on_conflict": "ignore"}, "on_conflict='ignore' must be 'return'"),
        ({"unique": "{a}", "on_conflict": ["raise"]}, "must be 'return', 'raise' or 'replace'"),
        ({"on_conflict": "raise"}, "says nothing without unique="),
    ],
)
def test_what_could_never_work_is_refused_where_it_is_declared(options, words):
    with pytest.raises(InvalidTask, match=words):
        add.using(**options)
    declare: Any = task
    with pytest.raises(InvalidTask):
        declare(**options)(add.func)


@pytest.mark.parametrize("value", ["", "x" * 201, "a\nb", "a\0b"])
def test_a_key_that_cannot_be_kept_is_refused_at_the_enqueue(value):
    with pytest.raises(InvalidLimit, match="the key of unique is"):
        add.using(unique="{a}").enqueue(value)
    with pytest.raises(InvalidLimit, match="Item 1: "):
        add.enqueue_many([add.s(1), add.using(unique="{a}").s(value)])
    assert not Job.objects.exists()


def test_a_key_may_be_a_function_of_the_arguments():
    made = add.using(unique=lambda a, b=0: f"{a + b}")
    made.enqueue(1, b=2)
    assert "3" == only_job().unique_key
    with pytest.raises(InvalidLimit, match="unique could not be made"):
        made.enqueue("x", b=2)


def test_a_key_takes_defaults_and_any_keyword():
    add.using(unique="{a}/{b}").enqueue(1)
    echo.using(unique="{word}").enqueue(word="x")
    assert ["1/0", "x"] == list(Job.objects.order_by("id").values_list("unique_key", flat=True))


def test_without_unique_nothing_is_kept_and_using_takes_it_back():
    add.enqueue(1)
    strict.using(unique=None).enqueue(1)
    strict.using(unique=None).enqueue(1)
    assert [None] * 3 == list(Job.objects.values_list("unique_key", flat=True))
    task(undecorated).using(unique="all").enqueue()
    assert "all" == Job.objects.latest("id").unique_key


def test_another_backend_passes_over_it(settings):
    put_backends(settings)
    made = once.using(backend="dummy")
    assert made.enqueue(1).id != made.enqueue(1).id
