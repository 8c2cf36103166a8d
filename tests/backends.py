"""Sessions on the test database: another one of ours, and those to be ended."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

_OPENED: set[BaseDatabaseWrapper] = set()
_OTHERS = """
    SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid <> pg_backend_pid() AND NOT pid = ANY (%s)
"""


@contextmanager
def opened(alias: str = "default") -> Iterator[BaseDatabaseWrapper]:
    """A connection of its own to the database of ``alias``, closed at the end."""
    wrapper = connections.create_connection(alias)
    wrapper.settings_dict = copy.deepcopy(wrapper.settings_dict)
    _OPENED.add(wrapper)
    try:
        yield wrapper
    finally:
        _OPENED.discard(wrapper)
        wrapper.close()


def end_others(*, seconds: float = 10) -> None:
    """End every session on the test database but this process's, and see them gone."""
    deadline = time.monotonic() + seconds
    with opened() as connection:
        while left := _terminate(connection):
            if time.monotonic() > deadline:
                raise TimeoutError(f"The sessions {left} do not end.")
            time.sleep(0.02)


def _terminate(connection: BaseDatabaseWrapper) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(_OTHERS, [_ours()])
        return [pid for pid, _ in cursor.fetchall()]


def _ours() -> list[int]:
    wrappers = [*connections.all(initialized_only=True), *_OPENED]
    open_ones = [wrapper.connection for wrapper in wrappers if wrapper.connection is not None]
    return [raw.info.backend_pid for raw in open_ones if not raw.closed]
