"""Any sequence of operations keeps what is promised of jobs and leases."""

from __future__ import annotations

import json
import os
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_jobs.models import Event, Job, Lease
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations.act import Actor
from django_jobs.operations.cancel import cancel
from django_jobs.operations.claim import Claimed, claim
from django_jobs.operations.hand_back import handed_back
from django_jobs.operations.promote import promote
from django_jobs.operations.purge import purge
from django_jobs.operations.renew import Beat, beat, renew
from django_jobs.operations.requeue import requeue
from django_jobs.operations.rescue import rescue
from django_jobs.operations.run_now import run_now
from django_jobs.operations.settle import Answer, Outcome, settle
from django_jobs.planner import Lane
from django_jobs.sql import SiteDatabase
from django_jobs.states import FINAL, TRANSITIONS, JobState
from tests.tasks import flaky, mark_once, ok

EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "30"))
CAP = 3
QUEUES = ("a", "b")
OPERATOR = Actor(id="1", name="ana", via="test")


class Machine(RuleBasedStateMachine):
    """Two workers, a sweeper and an operator on one set of tables."""

    database = SiteDatabase("default")

    @initialize()
    def clean(self) -> None:
        for model in (Event, Lease, Job, WorkerRow):
            model.objects.all().delete()
        self.workers = [uuid4(), uuid4()]
        self.held: dict[UUID, list[Claimed]] = {worker: [] for worker in self.workers}
        self.stale: list[tuple[UUID, Claimed]] = []  # runs whose lease was taken away
        self.ended: dict[int, int] = {}  # job → how often it was settled as final in this life
        self.known: dict[int, JobState] = {}
        self.purged: set[int] = set()
        self.asked: set[int] = set()  # jobs whose present run shall end
        for worker in self.workers:
            self.beat(worker)

    def beat(self, worker: UUID) -> None:
        beat(
            Beat(
                worker=worker,
                backend="default",
                name="host",
                pid=1,
                version="0",
                queues=list(QUEUES),
                state="running",
                capacity=CAP,
                in_flight=0,
                idle=False,
                epoch=1,
                loop_age=0.0,
                lease=30.0,
                quiet=20.0,
            ),
            database=self.database,
        )

    @rule(queue=st.sampled_from(QUEUES), priority=st.integers(-2, 2), kind=st.integers(0, 2))
    def enqueue(self, queue: str, priority: int, kind: int) -> None:
        task: Any = (ok, flaky, mark_once)[kind]
        result = task.using(queue_name=queue, priority=priority).enqueue(1 if kind < 2 else "k")
        self.known[int(result.id)] = JobState.READY

    @rule(who=st.integers(0, 1), room=st.integers(0, CAP))
    def claim(self, who: int, room: int) -> None:
        worker = self.workers[who]
        room = min(room, CAP - len(self.held[worker]))
        if room <= 0:
            return
        suspects = any(job.suspect for job in self.held[worker])
        lanes = [
            Lane(queue, slots=CAP, held=0, served=0, cost=1, turn=turn, suspect=suspect)
            for turn, queue in enumerate(QUEUES)
            for suspect in ((False,) if suspects else (False, True))
        ]
        got = claim(
            lanes,
            room=room,
            worker=worker,
            epoch=1,
            backend="default",
            lease_seconds=30,
            database=self.database,
        )
        assert got.known
        assert len(got.jobs) <= room
        assert sum(job.suspect for job in got.jobs) <= 1
        self.held[worker] += got.jobs

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), state=st.sampled_from(["succeeded", "dead", "retry", "hand back"]))
    def settle(self, data: st.DataObject, state: str) -> None:
        worker = data.draw(st.sampled_from([w for w in self.workers if self.held[w]]))
        job = data.draw(st.sampled_from(self.held[worker]))
        self.held[worker].remove(job)
        [answer] = settle([self.outcome(job, state)], worker=worker, database=self.database)
        assert answer.answer == Answer.SETTLED
        [again] = settle([self.outcome(job, state)], worker=worker, database=self.database)
        assert again.answer == Answer.REPEATED

    def outcome(self, job: Claimed, state: str) -> Outcome:
        if state == "hand back":
            return handed_back(lease=job.lease, job=job.id, reason="drain")
        if state == "retry" and job.attempt < job.max_attempts:
            return Outcome(
                lease=job.lease,
                job=job.id,
                state="scheduled",
                delay=0.0,
                kind="failed",
                data=json.dumps({"reason": "retry"}),
            )
        final = "succeeded" if state == "succeeded" else "dead"
        return Outcome(lease=job.lease, job=job.id, state=final, result="1")

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), dies=st.booleans())
    def lapse(self, data: st.DataObject, dies: bool) -> None:
        """A worker stops renewing; it may be dead, or only late."""
        worker = data.draw(st.sampled_from([w for w in self.workers if self.held[w]]))
        Lease.objects.filter(worker=worker).update(expires_at="2000-01-01T00:00:00Z")
        if dies:
            WorkerRow.objects.filter(pk=worker).update(seen_at="2000-01-01T00:00:00Z")
        self.beat(next(other for other in self.workers if other != worker))
        taken = {job.id for job in rescue(quiet=20.0, database=self.database)}
        assert taken == {job.id for job in self.held[worker]}
        self.stale += [(worker, job) for job in self.held[worker]]
        self.held[worker] = []
        self.beat(worker)

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def settle_late(self, data: st.DataObject) -> None:
        """Whatever a run says after its lease was taken is void."""
        worker, job = data.draw(st.sampled_from(self.stale))
        before = list(Job.objects.filter(pk=job.id).values())
        late = self.outcome(job, "succeeded")
        [answer] = settle([late], worker=worker, database=self.database)
        assert answer.answer == Answer.LOST
        assert list(Job.objects.filter(pk=job.id).values()) == before

    @rule()
    def renew(self) -> None:
        for worker, jobs in self.held.items():
            leases = [job.lease for job in jobs]
            answers = renew(leases, worker=worker, lease_seconds=30, database=self.database)
            assert all(answers[lease].renewed for lease in leases)
            asked = {job.lease for job in jobs if job.id in self.asked}
            assert {lease for lease, answer in answers.items() if answer.asked} == asked

    @rule()
    def promote(self) -> None:
        Job.objects.filter(state="scheduled").update(run_after="2000-01-01T00:00:00Z")
        waiting = Job.objects.filter(state="scheduled").count()
        count = promote(worker=self.workers[0], database=self.database)
        assert count == waiting

    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        chosen = some_jobs(data, most=4)
        final = Job.objects.filter(pk__in=chosen, finished_at__isnull=False).count()
        done = requeue(chosen, actor=OPERATOR, reason="again", database="default")
        assert done.count == final
        assert len(done.refused) == len(chosen) - final

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        chosen = some_jobs(data, most=4)
        live = Job.objects.live().filter(pk__in=chosen)
        running = set(live.filter(state="running").values_list("pk", flat=True))
        others = live.exclude(state="running").count()
        done = cancel(chosen, actor=OPERATOR, database="default")
        assert (done.count, done.asked) == (others, len(running))
        assert len(done.refused) == len(chosen) - others - len(running)
        self.asked |= running

    @rule(data=st.data())
    def run_now(self, data: st.DataObject) -> None:
        chosen = some_jobs(data, most=4)
        waiting = Job.objects.filter(pk__in=chosen, state="scheduled").count()
        done = run_now(chosen, actor=OPERATOR, database="default")
        assert done.count == waiting
        assert len(done.refused) == len(chosen) - waiting

    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        chosen = some_jobs(data, most=2)
        final = set(Job.objects.final().filter(pk__in=chosen).values_list("pk", flat=True))
        purge(chosen, actor=OPERATOR, reason="old", database="default")
        self.purged |= final

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "known"):
            assert set(Job.objects.values_list("pk", flat=True)) == set(self.known) - self.purged

    @invariant()
    def a_lease_is_a_running_job(self) -> None:
        running = set(Job.objects.filter(state="running").values_list("pk", flat=True))
        assert set(Lease.objects.values_list("job_id", flat=True)) == running

    @invariant()
    def the_cap_holds_and_the_workers_know_what_they_hold(self) -> None:
        for worker, jobs in getattr(self, "held", {}).items():
            leases = set(Lease.objects.filter(worker=worker).values_list("pk", flat=True))
            assert leases == {job.lease for job in jobs}
            assert len(leases) <= CAP

    @invariant()
    def attempts_and_workers_agree(self) -> None:
        for attempt, workers, most in Job.objects.values_list(
            "attempt", "worker_ids", "max_attempts"
        ):
            assert attempt == len(workers) <= most

    @invariant()
    def every_change_of_state_is_a_transition(self) -> None:
        for pk, state in Job.objects.values_list("pk", "state"):
            before, after = self.known[pk], JobState(state)
            assert after == before or after in reachable(before), (before, after)
            self.known[pk] = after

    @invariant()
    def a_job_is_asked_only_while_it_runs_and_no_attempt_follows(self) -> None:
        for pk in list(getattr(self, "asked", ())):
            state = Job.objects.filter(pk=pk).values_list("state", flat=True).first()
            assert state in {"running", "succeeded", "dead", "cancelled"}
            if state != "running":
                self.asked.remove(pk)
        told = Job.objects.filter(cancel_asked_at__isnull=False)
        assert set(told.values_list("pk", flat=True)) == getattr(self, "asked", set())

    @invariant()
    def history_is_of_existing_jobs(self) -> None:
        told = set(Event.objects.values_list("job_id", flat=True))
        assert told <= set(Job.objects.values_list("pk", flat=True))


def some_jobs(data: st.DataObject, *, most: int) -> list[int]:
    """Draw ids from all there are, in an order that a second run has too."""
    ids = list(Job.objects.order_by("pk").values_list("pk", flat=True))
    return data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=most)) if ids else []


def reachable(state: JobState) -> set[JobState]:
    """Return what one rule above may lead to: it may make several steps at once."""
    seen, edge = {state}, {state}
    while edge:
        edge = {after for before in edge for after in TRANSITIONS[before]} - seen
        seen |= edge - (FINAL if state in FINAL else frozenset())
    return seen


@pytest.mark.django_db
def test_any_sequence_of_operations_keeps_the_promises() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
