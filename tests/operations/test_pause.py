"""Pause and resume: the claim obeys at once, who said why is kept, the last word counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings

from django_jobs.exceptions import Refused
from django_jobs.models import Activity, Job, Queue
from django_jobs.operations.act import LONGEST_NAME, LONGEST_REASON, Actor
from django_jobs.operations.pause import pause
from django_jobs.operations.resume import resume
from tests.aliases import database_time, put_options
from tests.operations.desk import desks, job_row, jobs, succeeded
from tests.operations.ended import ANA, ended
from tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

BEN = Actor(name="ben", via="cli")
SOON = timedelta(hours=1)


def stop(queue: str = "default", **said: Any) -> None:
    said = {"backend": "default", "actor": ANA, "reason": "bad feed", **said}
    pause(queue, **said, database="default")


def go_on(queue: str = "default", **said: Any) -> bool:
    said = {"backend": "default", "actor": BEN, "reason": "feed mended", **said}
    return resume(queue, **said, database="default")


def row(queue: str = "default") -> Queue:
    return Queue.objects.get(backend="default", name=queue)


def acts() -> list[tuple[Any, ...]]:
    """Return what the records say, in order."""
    return list(
        Activity.objects.order_by("id").values_list(
            "verb", "actor_name", "scope", "count", "reason"
        )
    )


# What it does to jobs.


def test_a_paused_queue_is_not_claimed_from_and_others_are() -> None:
    jobs(2)
    with desks("one") as [one]:
        stop("mail")
        assert 1 == len(one.claim(room=1))
        stop()
        assert [] == one.claim()
        go_on()
        assert 1 == len(one.claim())


def test_a_running_job_goes_on_and_its_outcome_counts() -> None:
    [pk] = jobs()
    with desks("one") as [one]:
        [job] = one.claim()
        stop()
        assert "running" == job_row(pk).state
        [answer] = one.settle(succeeded(job))
        assert "settled" == answer.answer


def test_no_job_is_changed() -> None:
    jobs(3)
    before = list(Job.objects.order_by("pk").values())
    stop()
    go_on()
    assert before == list(Job.objects.order_by("pk").values())


def test_a_pause_ends_by_itself_at_its_time() -> None:
    [pk] = jobs()
    with desks("one") as [one]:
        stop(until=database_time() + SOON)
        assert [] == one.claim()
        Queue.objects.update(paused_until=database_time())
        assert [pk] == [job.id for job in one.claim()]


def test_another_alias_with_a_queue_of_that_name_goes_on(settings: Any) -> None:
    settings.TASKS = {**settings.TASKS, "second": settings.TASKS["default"]}
    jobs()
    with desks("one") as [one]:
        stop(backend="second")
        assert 1 == len(one.claim())


def test_a_resume_is_of_one_alias_and_of_one_queue(settings: Any) -> None:
    settings.TASKS = {**settings.TASKS, "second": settings.TASKS["default"]}
    stop("mail")
    stop()
    stop(backend="second")
    assert go_on()
    paused = Queue.objects.filter(paused=True).order_by("backend", "name")
    assert [("default", "mail"), ("second", "default")] == list(
        paused.values_list("backend", "name")
    )


# What is kept of it.


def test_the_row_says_who_why_since_and_until() -> None:
    before, until = database_time(), database_time() + SOON
    stop("mail", until=until)
    queue = row("mail")
    assert (True, "ana", "bad feed", until) == (
        queue.paused, queue.paused_by, queue.paused_reason, queue.paused_until,
    )  # fmt: skip
    assert queue.paused_at is not None
    assert before <= queue.paused_at <= database_time()


def test_since_is_when_it_was_said_and_not_when_the_transaction_began() -> None:
    with transaction.atomic():
        began = database_time()
        stop()
        assert row().paused_at is not None
        assert began < row().paused_at  # type: ignore[operator]


def test_an_override_of_slots_survives_both() -> None:
    Queue.objects.create(backend="default", name="default", slots=3)
    stop()
    assert (True, 3) == (row().paused, row().slots)
    go_on()
    assert (False, 3) == (row().paused, row().slots)


def test_one_activity_tells_each_act_in_words() -> None:
    stop("mail")
    go_on("mail")
    assert [
        ("pause", "ana", "queue mail of default", 1, "bad feed"),
        ("resume", "ben", "queue mail of default", 1, "feed mended"),
    ] == acts()
    told = Activity.objects.order_by("id").values_list("actor_id", "via")
    assert [("7", "admin"), (None, "cli")] == list(told)


def test_the_record_tells_until_when() -> None:
    stop(until=datetime(2040, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1))))
    assert "queue default of default until 2040-01-02 02:04:05 UTC" == acts()[0][2]


def test_the_record_has_the_time_of_the_row() -> None:
    stop()
    assert row().paused_at == Activity.objects.get().at


def test_pausing_again_says_anew_who_why_and_until_and_is_another_act() -> None:
    stop(until=database_time() + SOON)
    first = row().paused_at
    stop(actor=BEN, reason="still bad")
    queue = row()
    assert (True, "ben", "still bad", None) == (
        queue.paused, queue.paused_by, queue.paused_reason, queue.paused_until,
    )  # fmt: skip
    assert queue.paused_at is not None
    assert first is not None
    assert queue.paused_at > first
    assert ["pause", "pause"] == [verb for verb, *_ in acts()]


def test_after_a_resume_the_row_says_nothing_of_the_pause() -> None:
    stop(until=database_time() + SOON)
    assert go_on()
    queue = row()
    assert (False, None, None, None, None) == (
        queue.paused, queue.paused_at, queue.paused_by, queue.paused_reason, queue.paused_until,
    )  # fmt: skip


def test_hostile_and_long_words_are_stored_as_text() -> None:
    stop(actor=Actor(name="a\0\ud800<b>" + "x" * 999, via="cli"), reason="r\0'; --" * 999)
    queue, record = row(), Activity.objects.get()
    assert queue.paused_by is not None
    assert queue.paused_by.startswith("a\\x00\\ud800<b>x")
    assert (queue.paused_by, queue.paused_reason) == (record.actor_name, record.reason)
    assert len(record.actor_name) <= LONGEST_NAME
    assert len(record.reason) <= LONGEST_REASON


# What is refused.


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Expect a refusal that says ``words``, and that nothing was written."""
    before = list(Queue.objects.values()), Activity.objects.count()
    with pytest.raises(Refused) as caught:
        yield
    assert words in str(caught.value)
    assert before == (list(Queue.objects.values()), Activity.objects.count())


@pytest.mark.parametrize("reason", ["", "  \n\t"])
def test_a_pause_without_a_reason_is_refused(reason: str) -> None:
    with refused("Say why"):
        stop(reason=reason)


def test_a_resume_needs_no_reason() -> None:
    stop()
    assert go_on(reason="")


@pytest.mark.parametrize("paused", [False, True])
def test_an_end_that_is_not_in_the_future_of_the_database_is_refused(paused: bool) -> None:
    if paused:
        stop()
    with refused("is not in the future"):
        stop(until=database_time())


def test_the_database_judges_and_not_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.utils import timezone as hosts

    for wrong in (timedelta(days=-9), timedelta(days=9)):
        now = datetime.now(UTC) + wrong
        monkeypatch.setattr(hosts, "now", lambda now=now: now)
        stop(until=database_time() + timedelta(minutes=1))
        with refused("is not in the future"):
            stop(until=database_time() - timedelta(minutes=1))


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (datetime(2040, 1, 1), "has no time zone"),  # noqa: DTZ001 - naive on purpose
        (datetime.max.replace(tzinfo=UTC), "of the years 2 to 9998"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), "of the years"),
        (date(2040, 1, 1), "must be a datetime"),
        (3600, "must be a datetime"),
    ],
)
def test_an_end_that_is_no_time_is_refused(until: Any, words: str) -> None:
    with refused(words):
        stop(until=until)


@override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
def test_a_naive_end_is_local_time_where_the_site_has_no_time_zones() -> None:
    stop(until=datetime(2040, 7, 1, 8))  # noqa: DTZ001 - naive on purpose
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT paused_until = timestamptz '2040-07-01 12:00 UTC' FROM django_jobs_queue"
        )
        assert cursor.fetchone()[0]


@pytest.mark.parametrize("verb", [stop, go_on])
@pytest.mark.parametrize("name", ["", "a b", "x" * 101, "näh", "a\0", None, 7])
def test_what_cannot_name_a_queue_is_refused(verb: Callable[..., object], name: Any) -> None:
    with refused("names no queue: the name of a queue is 1 to 100 characters"):
        verb(name)


@pytest.mark.parametrize("verb", [stop, go_on])
def test_a_name_that_nobody_knows_is_refused_with_the_nearest(verb: Callable[..., object]) -> None:
    with refused("Did you mean 'imports'?"):
        verb("importz")


@pytest.mark.parametrize("verb", [stop, go_on])
def test_an_alias_that_nobody_knows_is_refused_with_the_nearest(
    verb: Callable[..., object],
) -> None:
    with refused("Did you mean 'default'?"):
        verb("mail", backend="defalt")


def test_a_queue_with_no_name_in_the_settings_is_known_by_its_row_or_its_jobs() -> None:
    Queue.objects.create(backend="default", name="said", slots=1)
    jobs(queue="ready")
    jobs(queue="scheduled", state="scheduled", run_after="2040-01-01T00:00Z")
    for name in ("said", "ready", "scheduled"):
        stop(name)
        assert row(name).paused


def test_a_queue_is_known_by_what_runs_in_it() -> None:
    jobs()
    with desks("one") as [one]:
        one.claim()
        Job.objects.update(queue="old")
        stop("old")
    assert row("old").paused


def test_what_has_ended_in_a_queue_does_not_make_it_known() -> None:
    ended(queue="old")
    with refused("'old' is not in TASKS['default']['QUEUES']"):
        stop("old")


def test_jobs_and_rows_of_another_alias_make_no_queue_known() -> None:
    Queue.objects.create(backend="other", name="theirs", slots=1)
    jobs(queue="theirs", backend="other")
    jobs(queue="theirs", backend="other", state="scheduled", run_after="2040-01-01T00:00Z")
    with refused("'theirs' is not in TASKS['default']['QUEUES']"):
        stop("theirs")


def test_any_name_is_a_queue_where_the_settings_name_none(settings: Any) -> None:
    put_options(settings, QUEUES=[])
    stop("whatever")
    assert row("whatever").paused


def test_a_queue_can_be_resumed_that_settings_and_jobs_have_lost(settings: Any) -> None:
    stop("mail")
    put_options(settings, QUEUES=["default"])
    assert go_on("mail")
    settings.TASKS = {}
    Queue.objects.update(paused=True)
    assert go_on("mail")


# Resume.


def test_a_resume_of_what_is_not_paused_writes_nothing() -> None:
    assert not go_on("mail")
    assert not Queue.objects.exists()
    stop("mail")
    assert go_on("mail")
    assert not go_on("mail")
    assert ["pause", "resume"] == [verb for verb, *_ in acts()]


def test_a_pause_that_is_over_is_not_resumed() -> None:
    stop(until=database_time() + SOON)
    Queue.objects.update(paused_until=database_time())
    before = Queue.objects.values().get()
    assert not go_on()
    assert before == Queue.objects.values().get()
    assert 1 == Activity.objects.count()


def test_a_sleeping_worker_of_the_queue_is_rung_after_the_commit(
    second_connection: BaseDatabaseWrapper,
) -> None:
    stop("mail")
    with desks("sleeper") as [sleeper]:
        sleeper.beat()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_worker SET idle = true")
        with second_connection.cursor() as cursor:
            cursor.execute("LISTEN django_jobs")
            with transaction.atomic():
                go_on("mail")
                assert [] == list(second_connection.connection.notifies(timeout=0.05))
            rung = second_connection.connection.notifies(timeout=5, stop_after=1)
            assert ["mail default"] == [bell.payload for bell in rung]


# The caller's transaction, races, cost.


def test_a_callers_rollback_takes_all_of_it_back() -> None:
    stop("mail")
    with transaction.atomic():
        stop()
        go_on("mail")
        transaction.set_rollback(True)
    assert [("mail", True)] == list(Queue.objects.values_list("name", "paused"))
    assert 1 == Activity.objects.count()


@contextmanager
def raced(first: Callable[[], object], call: Callable[[], object]) -> Iterator[Future[Any]]:
    """Do ``first``, and commit it when ``call`` on another connection waits for it."""
    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        first()
        late = threads.submit(_called, call)
        wait_for(_somebody_waits, what="Nobody waits for this transaction.")
        yield late


def _called(call: Callable[[], object]) -> object:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '10s'")  # this one is meant to wait
        return call()
    finally:
        connections.close_all()


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return bool(cursor.fetchone()[0])


def by_ben() -> None:
    stop(actor=BEN, reason="still bad")


@pytest.mark.parametrize("known", [False, True])
def test_of_two_who_pause_at_once_the_last_has_the_word_and_both_are_told(known: bool) -> None:
    if known:
        Queue.objects.create(backend="default", name="default", slots=2)
    with raced(lambda: stop(until=database_time() + SOON), by_ben) as late:
        pass
    assert late.result(timeout=5) is None
    assert ("ben", "still bad", None) == (
        row().paused_by, row().paused_reason, row().paused_until,
    )  # fmt: skip
    assert ["ana", "ben"] == [name for _, name, *_ in acts()]


def test_the_records_of_a_race_are_in_the_order_of_the_locks() -> None:
    with raced(stop, by_ben) as late:
        committed = database_time()
    late.result(timeout=5)
    assert row().paused_at == Activity.objects.latest("id").at
    assert Activity.objects.latest("id").at > committed


def test_a_pause_behind_a_resume_has_the_last_word() -> None:
    stop()
    with raced(go_on, lambda: stop(actor=ANA, reason="again")) as late:
        pass
    assert late.result(timeout=5) is None
    assert (True, "again") == (row().paused, row().paused_reason)
    assert ["pause", "resume", "pause"] == [verb for verb, *_ in acts()]


def test_a_resume_behind_a_pause_has_the_last_word() -> None:
    stop()
    with raced(by_ben, go_on) as late:
        pass
    assert late.result(timeout=5) is True
    assert not row().paused
    assert ["pause", "pause", "resume"] == [verb for verb, *_ in acts()]


def test_of_two_who_resume_at_once_one_does() -> None:
    stop()
    with raced(go_on, go_on) as late:
        pass
    assert late.result(timeout=5) is False
    assert ["pause", "resume"] == [verb for verb, *_ in acts()]


def test_an_end_that_passes_while_another_has_the_row_is_refused() -> None:
    with raced(stop, lambda: stop(until=database_time() + timedelta(milliseconds=500))) as late:
        end = database_time() + timedelta(milliseconds=500)
        wait_for(lambda: database_time() > end)
    with pytest.raises(Refused, match="not in the future"):
        late.result(timeout=5)
    assert 1 == Activity.objects.count()


def test_an_act_costs_one_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        stop("mail")
    with django_assert_num_queries(2):  # the other looks whether somebody sleeps
        go_on("mail")
    with django_assert_num_queries(1):
        go_on("mail")
