"""The table of transitions, walked on the database, and what the database itself refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from django_jobs.models import Dependency, Job, Lease, Limit, Queue, Worker
from django_jobs.operations.act import Actor
from django_jobs.operations.cancel import cancel
from django_jobs.operations.free import set_free
from django_jobs.operations.promote import promote
from django_jobs.operations.purge import purge
from django_jobs.operations.requeue import requeue
from django_jobs.operations.rescue import rescue
from django_jobs.operations.run_now import run_now
from django_jobs.operations.settle import Outcome, settle
from django_jobs.states import FAILED, FINAL, LIVE, TRANSITIONS, JobState
from tests.worlds import HERE, TASK, lanes, register, take, undone

S = JobState
ANA = Actor(name="ana", via="cli")

# Transitions of operations that are not walked here: limits, expiry.
LATER = {
    (S.WAITING, S.EXPIRED),
    *((S.BLOCKED, after) for after in TRANSITIONS[S.BLOCKED] - {S.CANCELLED}),
    *((before, S.EXPIRED) for before in (S.SCHEDULED, S.READY)),
    (S.READY, S.BLOCKED),
    (S.READY, S.SCHEDULED),
}


def test_each_state_is_in_exactly_one_of_live_succeeded_and_failed():
    for state in JobState:
        assert 1 == [state in LIVE, state is S.SUCCEEDED, state in FAILED].count(True)
    assert set(JobState) == LIVE | {S.SUCCEEDED} | FAILED
    assert FINAL == FAILED | {S.SUCCEEDED}


def test_the_table_has_a_row_for_every_state_and_only_states():
    assert set(JobState) == set(TRANSITIONS)
    for before, following in TRANSITIONS.items():
        assert following <= set(JobState)
        assert before not in following


def test_only_a_requeue_leads_on_from_a_final_state():
    assert {frozenset({S.READY})} == {TRANSITIONS[state] for state in FINAL}


def test_these_are_the_ways_in_which_a_run_ends():
    """The settle takes them from the table."""
    ends = {"ready", "scheduled", "succeeded", "dead", "dropped", "cancelled"}
    assert ends == TRANSITIONS[S.RUNNING]


def test_every_state_can_be_reached_and_can_end():
    reached = {S.WAITING, S.SCHEDULED, S.READY}  # by an enqueue
    while more := {after for state in reached for after in TRANSITIONS[state]} - reached:
        reached |= more
    assert set(JobState) == reached
    for state in LIVE:
        ahead = {state}
        while more := {after for one in ahead - FINAL for after in TRANSITIONS[one]} - ahead:
            ahead |= more
        assert ahead & FINAL


# Every operation on a job in every state.


class Case:
    """One job in one state, and a lapsed lease on it, which only a running one may have."""

    def __init__(self, before: JobState, **fields: Any) -> None:
        now = timezone.now()
        fields = {
            "task": TASK,
            "queue": "a",
            "state": before,
            "attempt": 1 if before is S.RUNNING else 0,
            "run_after": now,  # a job keeps it when its time has come
            "finished_at": now if before in FINAL else None,
            **fields,
        }
        self.worker: UUID = register()
        self.job = Job.objects.create(**fields).pk
        lapsed = now - timedelta(minutes=1)
        lease = Lease.objects.create(job_id=self.job, worker=self.worker, expires_at=lapsed)
        self.lease = lease.pk

    def state(self) -> JobState | None:
        """Return the job's state now; None when it has been deleted."""
        [state] = Job.objects.filter(pk=self.job).values_list("state", flat=True) or [None]
        return None if state is None else JobState(state)


def claimed(case: Case) -> None:
    Lease.objects.all().delete()
    take(lanes("a"), room=5, worker=case.worker)


def promoted(case: Case) -> None:
    promote(worker=case.worker, database=HERE)


def rescued(case: Case) -> None:
    rescue(quiet=20, database=HERE)


def requeued(case: Case) -> None:
    requeue([case.job], actor=ANA, database="default")


def run_at_once(case: Case) -> None:
    run_now([case.job], actor=ANA, database="default")


def cancelled(case: Case) -> None:
    cancel([case.job], actor=ANA, database="default")


def freed(case: Case) -> None:
    set_free(children=[case.job], database=HERE)


def freed_for_later(case: Case) -> None:
    Job.objects.filter(pk=case.job).update(run_after=timezone.now() + timedelta(days=1))
    freed(case)


def freed_too_late(case: Case) -> None:
    dead = Job.objects.create(task=TASK, state=S.DEAD, finished_at=timezone.now()).pk
    Dependency.objects.create(parent=dead, child=case.job)
    set_free([dead], database=HERE)


def purged(case: Case) -> None:
    purge([case.job], actor=ANA, database="default")


def settled(state: JobState, *, refund: int = 0) -> Callable[[Case], None]:
    def call(case: Case) -> None:
        delay = 5.0 if state is S.SCHEDULED else None
        outcome = Outcome(lease=case.lease, job=case.job, state=state, delay=delay, refund=refund)
        settle([outcome], worker=case.worker, database=HERE)

    return call


VERBS: dict[str, Callable[[Case], None]] = {
    "claim": claimed,
    "promote": promoted,
    "rescue": rescued,
    "requeue": requeued,
    "run now": run_at_once,
    "cancel": cancelled,
    "purge": purged,
    "free": freed,
    "free for later": freed_for_later,
    "free too late": freed_too_late,
    "hand back": settled(S.READY, refund=1),
    **{f"settle as {state}": settled(state) for state in JobState},
}
VARIETIES: tuple[dict[str, Any], ...] = (
    {},
    {"max_attempts": 1},
    {"max_attempts": 1, "keep_dead": False},
)


def walk(before: JobState) -> set[tuple[JobState, JobState | None]]:
    """Let every verb have a job in ``before``; return the transitions that they made."""
    made = set()
    for verb in VERBS.values():
        for variety in VARIETIES:
            with undone():
                case = Case(before, **variety)
                # refused: by the operation, or by a CHECK
                with suppress(ValueError, IntegrityError), transaction.atomic():
                    verb(case)
                made.add((before, case.state()))
    return made - {(before, before)}


@pytest.mark.django_db
@pytest.mark.parametrize("before", JobState)
def test_the_operations_make_the_transitions_of_the_table_and_no_other(before):
    allowed = {(before, after) for after in TRANSITIONS[before]} - LATER
    purged = {(before, None)} if before in FINAL else set()
    assert allowed | purged == walk(before)


@pytest.mark.django_db
@pytest.mark.parametrize("state", sorted(set(JobState) - TRANSITIONS[S.RUNNING]))
def test_no_run_ends_in_a_state_that_does_not_follow_running(state):
    case = Case(S.RUNNING)
    with pytest.raises(ValueError, match=state):
        settled(S(state))(case)
    assert S.RUNNING == case.state()
    assert Lease.objects.filter(pk=case.lease).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("before", sorted(set(JobState) - {S.RUNNING}))
def test_a_lease_of_a_job_that_does_not_run_settles_nothing(before):
    case = Case(S(before))
    settled(S.SUCCEEDED)(case)
    assert before == case.state()


# What no statement can write.


def _fields(**fields: Any) -> dict[str, Any]:
    return {"task": TASK, **fields}


BROKEN: list[tuple[str, type[models.Model], dict[str, Any]]] = [
    ("django_jobs_job_known_state", Job, _fields(state="tired")),
    *(
        ("django_jobs_job_finished_at_iff_final", Job, _fields(state=state))
        for state in sorted(FINAL)
    ),
    *(
        (
            "django_jobs_job_finished_at_iff_final",
            Job,
            _fields(state=state, attempt=1, run_after=timezone.now(), finished_at=timezone.now()),
        )
        for state in sorted(LIVE)
    ),
    ("django_jobs_job_scheduled_has_run_after", Job, _fields(state=S.SCHEDULED)),
    ("django_jobs_job_running_has_attempt", Job, _fields(state=S.RUNNING)),
    ("django_jobs_job_attempt_in_bounds", Job, _fields(attempt=-1)),
    ("django_jobs_job_attempt_in_bounds", Job, _fields(max_attempts=0)),
    ("django_jobs_job_priority_in_bounds", Job, _fields(priority=101)),
    ("django_jobs_job_priority_in_bounds", Job, _fields(priority=-101)),
    ("django_jobs_queue_slots_not_negative", Queue, {"name": "a", "slots": -1}),
    ("django_jobs_limit_in_use_not_negative", Limit, {"key": "a", "in_use": -1}),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "model", "fields"), BROKEN)
def test_the_database_refuses_a_row_that_cannot_be_true(name, model, fields):
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        model.objects.create(**fields)
    assert caught.value.__cause__ is not None
    assert name == caught.value.__cause__.diag.constraint_name  # type: ignore[attr-defined]


@pytest.mark.django_db
@pytest.mark.parametrize("state", JobState)
def test_the_database_takes_a_row_of_every_state(state):
    assert state == Case(state).state()


@pytest.mark.django_db
def test_every_check_of_the_tables_is_tested_here():
    tables = [model._meta.db_table for model in apps.get_app_config("django_jobs").get_models()]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = ANY"
            " (ARRAY(SELECT to_regclass(name) FROM unnest(%s::text[]) AS t(name)))",
            [tables],
        )
        assert {name for (name,) in cursor.fetchall()} == {name for name, *_ in BROKEN}


@pytest.mark.django_db
def test_a_job_has_at_most_one_lease():
    case = Case(S.RUNNING)
    with pytest.raises(IntegrityError), transaction.atomic():
        Lease.objects.create(job_id=case.job, worker=uuid4(), expires_at=timezone.now())
    assert 1 == Worker.objects.filter(pk=case.worker).count()
