"""The caller's transaction, while a job runs inside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs.worker.atomic import ABORTED, contain_callbacks, require_whole


@contextmanager
def unbroken() -> Iterator[None]:
    """Keep the caller's transaction usable when a run breaks it, as only its own would be.

    What a failing run wrote stays, as it does in a worker, unless the server has aborted
    the transaction: then the run's part is rolled back.
    """
    inside = [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    ]
    points = [(connection, str(connection.savepoint())) for connection in inside]
    try:
        yield
    finally:
        for connection, point in reversed(points):
            if connection.needs_rollback or _is_aborted(connection):
                connection.needs_rollback = False
                connection.savepoint_rollback(point)
            else:
                connection.savepoint_commit(point)


def _is_aborted(connection: BaseDatabaseWrapper) -> bool:
    info: Any = getattr(connection.connection, "info", None)
    return bool(info is not None and info.transaction_status == ABORTED)


@contextmanager
def own_part(alias: str, *, job: int) -> Iterator[None]:
    """Keep what a run writes only if it succeeds, as its own transaction would.

    Where the caller has no transaction open it is one, whose callbacks are the run's.
    """
    connection = connections[alias]
    is_own = not connection.in_atomic_block
    with transaction.atomic(using=alias):
        depth = len(connection.savepoint_ids)
        yield
        require_whole(connection, depth=depth)
        if is_own:
            contain_callbacks(connection, job=job)


@contextmanager
def own_callbacks() -> Iterator[None]:
    """Execute the callbacks on commit that were registered meanwhile."""
    inside = [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    ]
    before = {connection: len(connection.run_on_commit) for connection in inside}
    yield
    for connection, start in before.items():
        while len(connection.run_on_commit) > start:
            registered: Any = connection.run_on_commit.pop(start)
            _, callback, robust = registered
            try:
                callback()
            except Exception:
                if not robust:
                    raise
