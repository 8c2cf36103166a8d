"""A worker thread's private connection: its own settings, its own time limits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from threading import Lock
from time import monotonic
from typing import Any

import psycopg
from django.db import DataError, IntegrityError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error as DjangoDatabaseError
from django.db.utils import ProgrammingError as DjangoProgrammingError

from django_jobs.exceptions import DatabaseRefused
from django_jobs.sql import Row, load
from django_jobs.sql.private import hang_up, own_wrapper

logger = logging.getLogger("django_jobs.worker")

# libpq's own time limits need no session, so they work behind a pooler too; the site's win.
TIME_LIMITS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# What a direct connection asks of its session. A plan that was made while the tables were
# empty must do when they have grown, hence no sequential scans.
SESSION = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "default_transaction_isolation": "read committed",
    "idle_session_timeout": "0",  # the site's is for clients that forget to hang up
}
# After these the connection is as good as before; after anything else it is replaced.
HARMLESS = (
    psycopg.errors.DataError,
    psycopg.errors.IntegrityError,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,
)
# The database refuses what was sent; sending it again will not help.
REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.RaiseException,  # a trigger of the site
    DataError,
    IntegrityError,
)
UNPREPARABLE = (
    psycopg.errors.DuplicatePreparedStatement,
    psycopg.errors.InvalidSqlStatementName,
)
# Django's loader serves other time zones too, and is Python; this one may be C.
LOAD_TIME = psycopg.adapters.get_loader(
    psycopg.adapters.types["timestamptz"].oid, psycopg.pq.Format.TEXT
)
UNFIT = (psycopg.ProgrammingError, DjangoProgrammingError)  # a table or column is missing
Failure = (psycopg.Error, DjangoDatabaseError, OSError)  # what a fetch may raise


def private_wrapper(alias: str, *, purpose: str) -> BaseDatabaseWrapper:
    """Return a new, unconnected Django wrapper whose settings are its own."""
    limits = {**TIME_LIMITS, "application_name": f"jobworker {purpose}"}
    return own_wrapper(alias, defaults=limits)


class PrivateDatabase:
    """One thread's connection; opened at first use and again after any loss of it."""

    def __init__(self, alias: str, *, purpose: str) -> None:
        """``purpose`` names the thread in pg_stat_activity."""
        self.alias = alias
        self.pooled = False  # learned at connect
        self._purpose = purpose
        self._wrapper: BaseDatabaseWrapper | None = None
        self._preparing = True
        self._lock = Lock()
        self._waiting_since: float | None = None

    def fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run ``sql/<name>.sql`` in autocommit and return its rows.

        Raises one of ``Failure``; a connection that may be broken has been closed then.
        """
        connection = self.connection()
        with self._mending(), self._timed(), psycopg.Cursor(connection) as cursor:
            cursor.execute(load(name), params, prepare=self._preparing and not self.pooled)
            # not cursor.description, which describes every column
            return cursor.fetchall() if cursor.rownumber is not None else []

    def connection(self) -> psycopg.Connection[Any]:
        """Return the open psycopg connection."""
        if self._wrapper is None or self._wrapper.connection.closed:  # under a LISTEN, say
            self._connect()
        assert self._wrapper is not None
        connection: psycopg.Connection[Any] = self._wrapper.connection
        return connection

    def _connect(self) -> None:
        self._wrapper = wrapper = private_wrapper(self.alias, purpose=self._purpose)
        try:
            with self._timed():
                wrapper.connect()
                if wrapper.timezone is UTC:  # psycopg's own loader is ten times faster
                    wrapper.connection.adapters.register_loader("timestamptz", LOAD_TIME)
                self._prepare_session(wrapper.connection, wrapper.settings_dict)
        except BaseException:
            self.close()
            raise

    def _prepare_session(self, connection: psycopg.Connection[Any], settings: Any) -> None:
        """Ask for generic plans on a direct connection; leave a pooler's session alone."""
        pid, isolation = connection.execute(
            "SELECT pg_backend_pid(), current_setting('transaction_isolation')",
        ).fetchone() or (0, "")
        # a pooler makes up the process id that it tells at connect
        self.pooled = (
            settings.get("DISABLE_SERVER_SIDE_CURSORS") or pid != connection.info.backend_pid
        )
        if not self.pooled:
            connection.prepare_threshold = 0  # Django's None would mean never
            for name, value in SESSION.items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        elif isolation != "read committed":
            msg = (
                f"Database {self.alias!r} starts transactions at {isolation.upper()}, which makes"
                " racing claims fail. Set default_transaction_isolation to 'read committed' for"
                " the worker's role: ALTER ROLE … SET default_transaction_isolation = …."
            )
            raise DatabaseRefused(msg)

    @contextmanager
    def _mending(self) -> Iterator[None]:
        try:
            yield
        except UNPREPARABLE:
            self._preparing = False  # a pooler swapped the session: never again
            self.close()
            raise
        except HARMLESS:
            raise
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _timed(self) -> Iterator[None]:
        with self._lock:
            self._waiting_since = monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._waiting_since = None

    def cut(self, *, after: float) -> bool:
        """Break the connection if a statement has been unanswered for ``after`` seconds.

        Called from another thread. The waiting thread gets an OperationalError, as if the
        server had gone, which it may have.
        """
        with self._lock:
            if self._waiting_since is None or monotonic() - self._waiting_since < after:
                return False
            if not self.hang_up():
                return False  # still connecting, which has a time limit of its own
            self._waiting_since = None
        logger.warning(
            "database %s has not answered the %s for %.0f s: reconnecting",
            self.alias,
            self._purpose,
            after,
        )
        return True

    def hang_up(self) -> bool:
        """Break the line under whoever waits on it; return whether there was one."""
        return hang_up(self._wrapper)

    def close(self) -> None:
        """Close the connection; the next statement opens another."""
        wrapper, self._wrapper = self._wrapper, None
        if wrapper is not None and wrapper.connection is not None:
            wrapper.connection.close()
