"""What each worker's row and leases say of it, in the words of ``placement.py``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Case, F, Func, IntegerField, Q, Value, When
from django.db.models.functions import Least, Now

from django_jobs.conf import DEFAULT_SLOTS
from django_jobs.models import Worker
from django_jobs.models.worker import GONE
from django_jobs.operations.explain.explanation import Health
from django_jobs.placement import Host, is_amount, rung
from django_jobs.placement import Now as State
from django_jobs.sql import Row, SiteDatabase

MOST = 1000  # workers that are looked at
FORGOTTEN_SECONDS = 3600.0  # one that has been gone for longer is no longer named
ORDER: Sequence[Health] = ("live", "draining", "late", "gone")


@dataclass(frozen=True, slots=True)
class Held:
    """What a worker's leases take up."""

    count: int = 0
    in_queue: int = 0
    suspect: bool = False
    amounts: Mapping[str, float] = field(default_factory=dict)


def reporting(backend: str, *, queue: str | None = None, database: str) -> list[Any]:
    """Return the workers of a backend that are not long gone, each with ``now``; live first.

    Of more than are looked at, those that serve ``queue`` are: else it might seem unserved.
    """
    rows = Worker.objects.using(database).filter(backend=backend).unstopped()
    rows = rows.last_heard_of_first()
    if queue is not None:
        rows = _serving_first(rows, queue)
    found = list(rows[:MOST])
    known = [each for each in found if not _is_forgotten(each)]
    return sorted(known, key=lambda each: ORDER.index(each.health_at(each.now)))


def _serving_first(rows: Any, queue: str) -> Any:
    """Order them so that the many that died of late cannot crowd out those that live."""
    place = Func(F("queues"), Value(queue), function="array_position", output_field=IntegerField())
    heard = Least("seen_at", "loop_at")
    serves = Q(queues=None) | Q(place__isnull=False)
    lately = Q(heard__gt=Now() - timedelta(seconds=FORGOTTEN_SECONDS))
    others = Case(When(serves & lately, then=0), default=1)
    return rows.alias(place=place, heard=heard).order_by(others, heard.desc(), "pk")


def _is_forgotten(worker: Any) -> bool:
    gone_for = worker.silence_at(worker.now) - GONE * worker.renew_seconds
    return bool(gone_for > FORGOTTEN_SECONDS)


def held_by(workers: Iterable[Any], *, queue: str, database: str) -> dict[UUID, Held]:
    """Return what each worker holds, of those that hold anything."""
    params = {"workers": [worker.pk for worker in workers], "queue": queue}
    rows = SiteDatabase(database).fetch("explain_held", params)
    return {row[0]: _held(row) for row in rows}


def _held(row: Row) -> Held:
    _worker, count, in_queue, suspect, times, resources = row
    sums: dict[str, float] = {}
    for often, text in zip(times, resources, strict=True):
        for name, amount in _amounts_in(text).items():
            sums[name] = sums.get(name, 0) + often * rung(amount)
    return Held(count, in_queue, suspect, sums)


def _amounts_in(text: str | None) -> dict[str, float]:
    """Return what a placement asks for; of one that a hand made wrong nothing is held."""
    try:
        return amounts_of(json.loads(text or "{}"))
    except ValueError:
        return {}


def amounts_of(resources: object) -> dict[str, float]:
    """Return the amounts among what a row says; a hand, or another version, may say more."""
    if not isinstance(resources, Mapping):
        return {}
    return {name: amount for name, amount in resources.items() if is_amount(amount)}


def host_of(worker: Worker, *, without: Collection[str] = ()) -> Host:
    """Return what a worker's row says that it is; ``without``: hosts without the task's code.

    A worker without ``default_slots`` is of a version that takes only jobs for any host.
    """
    if worker.default_slots is None:
        return Host(names=(), knows=lambda _task: False)
    knows = worker.name not in without
    return Host(
        names={worker.name, *worker.aliases},
        labels=worker.labels,
        resources=amounts_of(worker.resources),
        knows=lambda _task: knows,
    )


def serves(worker: Worker, queue: str) -> bool:
    """Tell whether a worker claims from the queue at all."""
    return worker.queues is None or queue in worker.queues


def state_of(
    worker: Worker, held: Held, *, queue: str, paused: bool, override: int | None
) -> State:
    """Return what a worker has left; ``override``: an operator's word on the queue's slots."""
    total = amounts_of(worker.resources)
    return State(
        serves=serves(worker, queue),
        paused=paused,
        draining=worker.state == Worker.State.DRAINING,
        room=worker.capacity - held.count,
        slots=(_slots(worker, queue) if override is None else override) - held.in_queue,
        free={name: amount - held.amounts.get(name, 0) for name, amount in total.items()},
        suspect=held.suspect,
    )


def _slots(worker: Worker, queue: str) -> int:
    default = DEFAULT_SLOTS if worker.default_slots is None else worker.default_slots
    named = worker.slots.get(queue) if isinstance(worker.slots, Mapping) else None
    return min(named if isinstance(named, int) else default, worker.capacity)


def label_of(name: str | None, pid: int | None, worker: UUID | None) -> str:
    """Name a process as an operator knows it, by its id when its row is gone."""
    return str(worker) if name is None else f"{name}:{pid}"


def health_of(columns: Sequence[Any], *, now: datetime) -> str:
    """Return the health of the worker with this state, these two signs and interval."""
    names = ("state", "seen_at", "loop_at", "renew_seconds")
    return Worker(**dict(zip(names, columns, strict=True))).health_at(now)
