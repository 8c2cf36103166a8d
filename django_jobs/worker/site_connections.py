"""The Django connections that a run's thread uses: fresh before a job, clean after it."""

from __future__ import annotations

import logging
import select
import threading
from contextlib import suppress
from time import monotonic
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_jobs.worker")

TRUSTED_SECONDS = 1.0  # a connection used so lately is only looked at, not asked

_last = threading.local()


def refresh_connections() -> None:
    """Close those connections of this thread that no longer work.

    One that was used within the last second is trusted unless its socket has something to
    say; an older one is asked. (``close_old_connections`` per job would reconnect each time
    with Django's default CONN_MAX_AGE.)
    """
    trusted = monotonic() - getattr(_last, "used", 0.0) < TRUSTED_SECONDS
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or (trusted and _is_quiet(connection)):
            continue
        if not connection.is_usable():
            drop(connection)


def _is_quiet(connection: BaseDatabaseWrapper) -> bool:
    """Return False when the server has sent something unasked, as it does on leaving."""
    fileno = getattr(connection.connection, "fileno", None)
    if fileno is None:
        return True
    try:
        poll = select.poll()
        poll.register(fileno(), select.POLLIN)
        return not poll.poll(0)
    except Exception:  # noqa: BLE001 - closed under our hands, in whatever way its driver says so
        return False


def tidy_connections(task: str) -> None:
    """Put an end to what a run left open; it must not reach the next run."""
    _last.used = monotonic()
    for connection in connections.all(initialized_only=True):
        if connection.connection is None and not connection.in_atomic_block:
            continue
        connection.queries_log.clear()  # with DEBUG on it would grow: no request ends here
        if _is_dirty(connection):
            logger.warning(
                "task %s left a transaction open on %s: rolled back", task, connection.alias
            )
            drop(connection)
        elif _is_pooled(connection) or (connection.errors_occurred and not connection.is_usable()):
            drop(connection)  # to a pool of the site's it is only given back


def _is_pooled(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict.get("OPTIONS", {}).get("pool"))


def _is_dirty(connection: BaseDatabaseWrapper) -> bool:
    info: Any = getattr(connection.connection, "info", None)
    status = getattr(info, "transaction_status", 0)
    return bool(
        connection.in_atomic_block
        or connection.needs_rollback
        or not connection.autocommit
        or status not in (0, 4),  # psycopg: IDLE, or UNKNOWN for a closed connection
    )


def drop(connection: BaseDatabaseWrapper) -> None:
    """Close a connection, or give it back to its pool; the next use resets its state."""
    connection.in_atomic_block = False  # whoever opened that block is gone
    connection.closed_in_transaction = False
    with suppress(Exception):  # it may be broken already
        connection.close()


def close_connections() -> None:
    """Close this thread's connections; they open again when they are used."""
    for connection in connections.all(initialized_only=True):
        drop(connection)
