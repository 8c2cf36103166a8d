"""What a worker says of itself: in its row with each heartbeat, in its log at the start."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

from django_jobs.operations.renew import Beat
from django_jobs.placement import Host
from django_jobs.worker.hosting import machine_names

if TYPE_CHECKING:
    from django_jobs.worker.worker import Worker

logger = logging.getLogger("django_jobs.worker")

VERSION = version("django_jobs")


def sign(worker: Worker, *, state: str) -> Beat:
    """Return the worker's row as it is now."""
    options, host = worker.options, worker.hosting.host
    return Beat(
        worker=worker.id,
        backend=options.alias,
        name=worker.name,
        pid=os.getpid(),
        version=VERSION,
        queues=None if worker.served.dynamic else worker.served.names,
        state=state,
        capacity=options.max_in_flight,
        in_flight=len(worker.capacity.held),
        idle=worker.loop.idle,
        epoch=worker.loop.epoch,
        loop_age=worker.silence(),
        lease=options.lease_seconds,
        renew=options.renew_seconds,
        quiet=worker.quiet,
        aliases=sorted(set(host.names) - {worker.name}),
        labels=sorted(host.labels),
        resources=json.dumps(dict(host.resources)),
        slots=json.dumps({name: worker.capacity.slots(name) for name in options.queues}),
        default_slots=worker.capacity.slots(""),
        cron=worker.fires_schedules,
        health=worker.health,
    )


def names_of(name: str) -> frozenset[str]:
    """Return by what a job may ask for this worker: its own name and its machine's."""
    return machine_names() | {name}


def offer_in_words(host: Host) -> str:
    """Say what a host offers beside its name."""
    amounts = [amounts_in_words(host.resources)] if host.resources else []
    return ", ".join([*sorted(host.labels), *amounts])


def amounts_in_words(resources: Mapping[str, float]) -> str:
    """Write amounts as people do."""
    return ", ".join(f"{name} {amount:,g}" for name, amount in resources.items())


def announce(worker: Worker) -> None:
    """Log what this worker serves and offers, and what of its cap nobody will use."""
    capacity, options, names = worker.capacity, worker.options, worker.served.names
    served = ", ".join(
        f"{name} (slots {capacity.slots(name)}, weight {options.weight(name)})" for name in names
    )
    logger.info(
        "worker %s:%s on %r: up to %s in flight; serves %s; offers %s",
        worker.name,
        os.getpid(),
        options.alias,
        capacity.cap,
        served or "every queue",
        offer_in_words(worker.hosting.host),
    )
    total = sum(capacity.slots(name) for name in names)
    if names and total < capacity.cap:
        logger.warning(
            "all slots together are %s, below max_in_flight %s: the rest is unused",
            total,
            capacity.cap,
        )


def announce_processes(worker: Worker, processes: int) -> None:
    """Log what so many workers like this one may hold and offer together."""
    cap = worker.options.max_in_flight
    logger.info(
        "supervisor %s:%s: %s processes of up to %s in flight each, %s in all",
        worker.name,
        os.getpid(),
        processes,
        cap,
        processes * cap,
    )
    if worker.options.resources:
        each = worker.options.resources
        logger.warning(
            "each process offers its own %s, together %s: give each its share",
            amounts_in_words(each),
            amounts_in_words({name: processes * amount for name, amount in each.items()}),
        )
