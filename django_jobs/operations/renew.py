"""Keep leases and the worker's own row alive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from django_jobs.sql import Database, array


class Renewal(NamedTuple):
    """The answer for one lease that this worker holds."""

    renewed: bool  # False: busy, next time
    asked: bool = False  # its run shall end: an operator has cancelled the job


def renew(
    leases: Collection[int],
    *,
    worker: UUID,
    lease_seconds: float,
    database: Database,
) -> dict[int, Renewal]:
    """Renew by lease id; a lease without an answer is lost."""
    params = {"leases": array(leases), "worker": worker, "lease": float(lease_seconds)}
    return {lease: Renewal(*rest) for lease, *rest in database.fetch("renew", params)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A worker's sign of life, as its row shows it."""

    worker: UUID
    backend: str
    name: str
    pid: int
    version: str
    queues: list[str] | None
    state: str
    capacity: int
    in_flight: int
    idle: bool
    epoch: int
    loop_age: float  # seconds since the claim loop last turned
    lease: float
    quiet: float  # lease less renewal interval: a longer silence of all is the database's
    renew: float = 10.0  # seconds between two beats
    aliases: list[str] = field(default_factory=list)  # more names of its host
    labels: list[str] = field(default_factory=list)
    resources: str = "{}"  # JSON text: name → amount, all of it
    slots: str = "{}"  # JSON text: queue → slots, where the settings say them
    default_slots: int | None = None  # of other queues
    cron: bool = False  # it fires schedules
    health: str | None = None  # host:port that answers


def beat(sign: Beat, *, database: Database) -> int:
    """Register or refresh a worker's row; return its epoch.

    The first beat after a silence of the whole fleet gives every lapsed lease one more
    lease time, once: then the database was away, not the workers.
    """
    params = {name: getattr(sign, name) for name in Beat.__slots__}
    [(epoch,)] = database.fetch("beat", params)
    return int(epoch)


def raise_epoch(*, worker: UUID, database: Database) -> int | None:
    """Void every claim of this worker still under way; None: its row is gone."""
    rows = database.fetch("epoch", {"worker": worker})
    return rows[0][0] if rows else None


def held_leases(*, worker: UUID, database: Database) -> dict[int, int]:
    """Return lease id → job id of what the database says this worker holds."""
    return dict(database.fetch("held", {"worker": worker}))
