"""Foresee that no worker could ever take a job, before it waits for nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from django.db import connections, transaction

from django_jobs.operations.explain.hosts import host_of, reporting, serves
from django_jobs.placement import Needs, lasting

logger = logging.getLogger("django_jobs.enqueue")


def forewarn(asked: Collection[tuple[Needs, str]], *, backend: str, database: str) -> None:
    """Log a warning for each pair of needs and queue that no live worker could ever take.

    In a transaction it is asked after the commit, and not at all where the caller commits by
    hand. The jobs are in the table by then: whatever goes wrong here must not look as if they
    were not.
    """
    connection = connections[database]

    def ask() -> None:
        live = _live(backend, database=database)
        for needs, queue in asked:
            if (found := _never(needs, queue, live)) is not None:
                logger.warning("%s", found)

    if connection.in_atomic_block:
        transaction.on_commit(ask, using=database, robust=True)
    elif connection.get_autocommit():
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - see above
            logger.debug("cannot foresee who will run it: %s", error)


def never(needs: Needs, queue: str, *, backend: str, database: str) -> str | None:
    """Say why none of the live workers could ever take such a job; None: one could.

    None also while there is no live worker: then nothing can be foreseen. One statement.
    """
    return _never(needs, queue, _live(backend, database=database))


def _live(backend: str, *, database: str) -> list[Any]:
    workers = reporting(backend, database=database)
    return [each for each in workers if each.health_at(each.now) == "live"]


def _never(needs: Needs, queue: str, live: Sequence[Any]) -> str | None:
    if not live:
        return None
    serving = [each for each in live if serves(each, queue)]
    if not serving:
        return f"No live worker serves the queue {queue!r}: a job in it waits until one does."
    return _nobody_fits(needs, queue, serving)


def _nobody_fits(needs: Needs, queue: str, serving: Sequence[Any]) -> str | None:
    found = {each: next(lasting(needs, host_of(each)), None) for each in serving}
    if None in found.values():
        return None
    worker, why = next((worker, why) for worker, why in found.items() if why is not None)
    asked = f"{why.reason}: {why.detail}" if why.detail else str(why.reason)
    return (
        f"No live worker of the queue {queue!r} fits a job that needs {needs}, such as {worker}"
        f" ({asked}): it waits until one does."
    )
