"""Two workers' private connections to one database, and claimed jobs to race over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.db import connection

from django_jobs.models import Event, Job, Lease, Worker
from django_jobs.operations.claim import Claimed, claim
from django_jobs.operations.renew import Beat, beat
from django_jobs.operations.settle import Outcome, Settled, settle
from django_jobs.planner import Turns
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import PrivateDatabase

LEASE = 30.0
QUIET = 20.0


class Desk:
    """One worker as the operations know it: an id, a connection, its row in the table."""

    def __init__(self, name: str) -> None:
        self.id: UUID = uuid4()
        self.name = name
        self.database = PrivateDatabase("default", purpose=name)
        self.beat()

    def beat(self, **changes: Any) -> int:
        """Register or refresh the worker's row."""
        sign = Beat(
            worker=self.id,
            backend="default",
            name=self.name,
            pid=1,
            version="0",
            queues=None,
            state="running",
            capacity=50,
            in_flight=0,
            idle=False,
            epoch=1,
            loop_age=0.0,
            lease=LEASE,
            quiet=QUIET,
        )
        return beat(replace(sign, **changes), database=self.database)

    def claim(self, *, room: int = 50, epoch: int = 1) -> list[Claimed]:
        """Claim what is ready in the queue ``default``."""
        capacity = Capacity(cap=50, slots={}, default_slots=50)
        return claim(
            capacity.lanes(["default"], Turns({})),
            room=room,
            worker=self.id,
            epoch=epoch,
            backend="default",
            lease_seconds=LEASE,
            database=self.database,
        ).jobs

    def settle(self, *outcomes: Outcome) -> list[Settled]:
        """Write how runs ended."""
        return settle(outcomes, worker=self.id, database=self.database)

    def open(self) -> psycopg.Connection[Any]:
        """The raw connection, for a transaction that is held open."""
        return self.database.connection()


@contextmanager
def desks(*names: str) -> Iterator[list[Desk]]:
    """One desk a name; their connections are closed at the end."""
    made = [Desk(name) for name in names]
    try:
        yield made
    finally:
        for desk in made:
            desk.database.close()


def jobs(count: int = 1, **columns: Any) -> list[int]:
    """Insert ready jobs; return their ids."""
    columns = {"task": "tests.tasks.ok", **columns}
    return [job.pk for job in Job.objects.bulk_create(Job(**columns) for _ in range(count))]


def succeeded(job: Claimed, result: str = "null") -> Outcome:
    """The outcome of a run that returned."""
    return Outcome(lease=job.lease, job=job.id, state="succeeded", result=result)


def failed(job: Claimed, *, delay: float = 60.0) -> Outcome:
    """The outcome of an attempt that will be retried."""
    return Outcome(
        lease=job.lease, job=job.id, state="scheduled", delay=delay, error="boom", kind="failed"
    )


def answers(settled: list[Settled]) -> list[str]:
    """The answers alone."""
    return [each.answer.value for each in settled]


def lapse(*leases: int, seconds: float = 1.0) -> None:
    """Let leases have run out ``seconds`` ago."""
    _backdate("django_jobs_lease", "expires_at", leases, seconds)


def silence(*desks: Desk, seconds: float = QUIET + 1) -> None:
    """Let workers have beaten last ``seconds`` ago."""
    _backdate("django_jobs_worker", "seen_at", [desk.id for desk in desks], seconds)


def _backdate(table: str, column: str, ids: Any, seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET {column} = clock_timestamp() - %s * interval '1 second'"
            " WHERE id = ANY (%s)",
            [seconds, list(ids)],
        )


def job_row(pk: int) -> Job:
    """The job as it is now."""
    return Job.objects.get(pk=pk)


def kinds(pk: int) -> list[str]:
    """The kinds of a job's events, in order."""
    return list(Event.objects.filter(job_id=pk).order_by("id").values_list("kind", flat=True))


def lease_left(lease: int) -> bool:
    """Whether a lease is still there."""
    return Lease.objects.filter(pk=lease).exists()


def forget(desk: Desk) -> None:
    """Delete a worker's row, as a careless operator would."""
    Worker.objects.filter(pk=desk.id).delete()
