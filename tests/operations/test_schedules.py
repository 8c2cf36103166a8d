"""An operator's word on the entries of cron."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from django_jobs.compat import task_enqueued
from django_jobs.exceptions import Refused
from django_jobs.models import Activity, Job, Schedule
from django_jobs.operations.act import Actor
from django_jobs.operations.scheduled_job import scheduled_job
from django_jobs.operations.schedules import disable_schedule, enable_schedule, run_schedule
from tests.aliases import database_time
from tests.operations.desk import jobs
from tests.operations.ended import ANA
from tests.operations.timetables import occurrences, put_cron, row, set_row, timetables

pytestmark = pytest.mark.django_db(transaction=True)

BEN = Actor(name="ben", via="cli")
PAST = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ("verb", "actor_name", "scope", "count", "reason")


@pytest.fixture(autouse=True)
def tick(settings: Any) -> None:
    """An entry in the settings."""
    put_cron(settings, tick={})


def written() -> None:
    """Let a worker have written the entry down."""
    with timetables({"tick": {}}) as [worker]:
        worker.put()


def off(name: str = "tick", **said: Any) -> None:
    said = {"backend": "default", "actor": ANA, "reason": "too much mail", **said}
    disable_schedule(name, **said, database="default")


def on(name: str = "tick", **said: Any) -> bool:
    said = {"backend": "default", "actor": BEN, **said}
    return enable_schedule(name, **said, database="default")


def run(name: str = "tick", **said: Any) -> int:
    said = {"backend": "default", "actor": BEN, "reason": "asked for", **said}
    return run_schedule(name, **said, database="default")


def acts() -> list[tuple[Any, ...]]:
    return list(Activity.objects.order_by("id").values_list(*FIELDS))


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Expect a refusal that says ``words``, and that nothing was written."""
    before = [list(kind.objects.values()) for kind in (Schedule, Activity, Job)]
    with pytest.raises(Refused) as caught:
        yield
    assert words in str(caught.value)
    assert before == [list(kind.objects.values()) for kind in (Schedule, Activity, Job)]


# Disable and enable.


def test_a_disabled_entry_does_not_fire_and_the_row_says_who_and_why() -> None:
    with timetables({"tick": {}}) as [worker]:
        worker.put()
        before = database_time()
        off()
        set_row(next_at=PAST)
        assert not worker.fire()
        assert ("ana", "too much mail") == (row().disabled_by, row().disabled_reason)
        assert before <= row().disabled_at <= database_time()  # type: ignore[operator]


def test_a_firing_that_was_decided_before_the_disabling_makes_no_job(monkeypatch: Any) -> None:
    with timetables({"tick": {}}) as [worker]:
        worker.put()
        set_row(next_at=PAST)
        monkeypatch.setattr("django_jobs.worker.timetable.scheduled_job", _after(off))
        assert not worker.fire()
        assert [] == occurrences()


def _after(act: Any) -> Any:
    def acted(*args: Any, **given: Any) -> Any:
        act()
        return scheduled_job(*args, **given)

    return acted


def test_an_enabled_entry_fires_next_after_that_and_not_for_its_past() -> None:
    with timetables({"tick": {"catch_up": "all"}}) as [worker]:
        worker.put()
        off()
        assert on()
        said = row()
        assert (None, None, None) == (said.disabled_at, said.disabled_by, said.disabled_reason)
        assert said.next_at is not None
        assert database_time() < said.next_at <= database_time() + timedelta(minutes=1)
        assert not worker.fire()


def test_what_comes_after_the_enabling_fires_even_if_no_worker_lives_just_then() -> None:
    with timetables({"tick": {}}) as [worker]:
        worker.put()
        off()
        on()
        came = row().next_at
        assert came is not None
        set_row(next_at=came - timedelta(minutes=5))
        assert worker.fire()


def test_a_row_that_nobody_can_read_is_reckoned_by_the_first_look() -> None:
    with timetables({"tick": {}}) as [worker]:
        worker.put()
        off()
        set_row(timezone="Mars/Olympus")
        on()
        assert row().next_at is None
        assert not worker.fire()
        assert row().next_at is not None
        assert (None, []) == (row().missed_at, occurrences())


def test_enabling_one_that_is_enabled_writes_nothing() -> None:
    written()
    before = Schedule.objects.values().get()
    assert not on()
    assert (before, []) == (Schedule.objects.values().get(), acts())


def test_disabling_again_says_anew_who_and_why() -> None:
    written()
    off()
    off(actor=BEN, reason="still")
    assert ("ben", "still") == (row().disabled_by, row().disabled_reason)


def test_an_activity_tells_each_act() -> None:
    written()
    off()
    on(reason="calm again")
    run()
    assert [
        ("disable_schedule", "ana", "schedule tick of default", 1, "too much mail"),
        ("enable_schedule", "ben", "schedule tick of default", 1, "calm again"),
        ("run_schedule", "ben", "schedule tick of default", 1, "asked for"),
    ] == acts()


def test_an_act_that_is_rolled_back_leaves_nothing() -> None:
    written()
    before = Schedule.objects.values().get()
    with transaction.atomic():
        off()
        run()
        transaction.set_rollback(True)
    assert (before, [], 0) == (Schedule.objects.values().get(), acts(), Job.objects.count())


def test_an_entry_stays_disabled_when_it_is_edited() -> None:
    with timetables({"tick": {}}, {"tick": {"schedule": "0 3 * * *"}}) as [old, new]:
        old.put()
        off()
        new.put()
        assert ("0 3 * * *", None) == (row().schedule, row().next_at)
        assert row().disabled_at is not None


# What is refused.


@pytest.mark.parametrize("reason", ["", " \n"])
def test_disabling_without_a_reason_is_refused(reason: str) -> None:
    written()
    with refused("Say why"):
        off(reason=reason)


@pytest.mark.parametrize("act", [off, on])
def test_an_entry_that_no_worker_has_written_down_is_refused_with_the_cure(act: Any) -> None:
    with refused("no worker has written it down yet. Start a worker"):
        act()


@pytest.mark.parametrize("act", [off, on, run])
def test_an_unknown_entry_is_refused_with_a_near_one(act: Any) -> None:
    with refused("TASKS['default'] has no schedule 'tock'. Did you mean 'tick'?"):
        act("tock")


@pytest.mark.parametrize("act", [off, on])
def test_an_unknown_alias_is_refused(act: Any) -> None:
    with refused("TASKS has no alias 'elsewhere'"):
        act(backend="elsewhere")


@pytest.mark.parametrize("name", ["a\0b", "", None, 7, "x\n"])
@pytest.mark.parametrize("act", [off, on, run])
def test_what_is_no_name_is_refused(act: Any, name: Any) -> None:
    with refused("schedule"):
        act(name)


# Run now.


def test_a_run_is_a_job_of_the_entry_that_is_for_no_occurrence() -> None:
    written()
    before = row()
    pk = run()
    job = Job.objects.get(pk=pk)
    assert ("tick", None, "tests.tasks.ok", "ready") == (
        job.schedule, job.scheduled_for, job.task, job.state,
    )  # fmt: skip
    after = row()
    assert (before.next_at, before.last_at, pk) == (after.next_at, after.last_at, after.last_job)


def test_a_run_has_what_the_settings_say(settings: Any) -> None:
    put_cron(settings, tick={"args": [7], "queue": "mail", "priority": 9})
    job = Job.objects.get(pk=run())
    assert ([7], "mail", 9) == (job.args, job.queue, job.priority)


def test_a_disabled_entry_and_one_that_no_worker_has_seen_can_be_run() -> None:
    assert run()
    written()
    off()
    assert run()


def test_a_run_is_announced_once_after_the_commit() -> None:
    heard: list[str] = []

    def hear(task_result: Any, **_: Any) -> None:
        heard.append(task_result.id)

    task_enqueued.connect(hear)
    try:
        with transaction.atomic():
            pk = run()
            assert [] == heard
    finally:
        task_enqueued.disconnect(hear)
    assert [str(pk)] == heard


def test_a_run_does_not_overlap_where_overlap_is_skip(settings: Any) -> None:
    put_cron(settings, tick={"overlap": "skip"})
    written()
    first = run()
    with refused("The last job of the schedule tick is still live"):
        run()
    Job.objects.filter(pk=first).update(state="dead", finished_at=database_time())
    assert run()


def test_the_next_firing_does_not_overlap_with_a_run() -> None:
    with timetables({"tick": {"overlap": "skip"}}) as [worker]:
        worker.put()
        run()
        set_row(next_at=PAST)
        assert not worker.fire()
        assert "overlap" == row().missed_why


def test_a_unique_key_that_is_taken_is_refused(settings: Any) -> None:
    put_cron(settings, tick={"task": "tests.operations.test_fire.only_one"})
    written()
    jobs(unique_key="only", task="tests.tasks.ok")
    with refused("has its unique key"):
        run()


def test_a_task_that_is_not_there_is_refused(settings: Any) -> None:
    put_cron(settings, tick={"task": "tests.tasks.gone"})
    with refused("The schedule tick cannot be run: No task is known as 'tests.tasks.gone'"):
        run()


def test_wrong_settings_are_refused_in_their_own_words(settings: Any) -> None:
    put_cron(settings, tick={"schedule": "0 0 31 2 *"})
    with refused("it is never due"):
        run()
