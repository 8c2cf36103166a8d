"""One callback a transaction, whatever the number of calls that want it."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")


def of_transaction(connection: BaseDatabaseWrapper, kind: type[T]) -> T:
    """Return the callback of this kind of the present transaction, made if there is none.

    ``kind`` takes the connection. Django makes a new list of callbacks at each commit and
    rollback: the one that it was registered in tells whether it is still of this transaction.
    """
    registered: list[Any] = connection.run_on_commit
    known: dict[type, tuple[list[Any], Any]]
    known = connection.__dict__.setdefault("_django_jobs_after_commit", {})
    at, found = known.get(kind, (None, None))
    if at is not registered:
        callbacks = (entry[1] for entry in registered)
        found = next((each for each in callbacks if isinstance(each, kind)), None)
        known[kind] = registered, found or kind(connection)  # type: ignore[call-arg]
    callback: T = known[kind][1]
    return callback
