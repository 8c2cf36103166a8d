"""A run in one transaction with its settle: both are committed, or neither."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from django_jobs.compat import InvalidTask
from django_jobs.conf import Options
from django_jobs.exceptions import WorkerLost
from django_jobs.operations.settle import Outcome
from django_jobs.operations.settle_own import begin_own, settle_own
from django_jobs.sql import SiteDatabase
from django_jobs.tasks.atomic import misplaced
from django_jobs.worker import outcomes
from django_jobs.worker.run import Run
from django_jobs.worker.site_connections import drop

logger = logging.getLogger("django_jobs.worker")

End = tuple[Any, BaseException | None]
ACTIVE, ABORTED = 2, 3  # libpq's states of a transaction

GONE = "The run's lease was gone when it was to commit: what it wrote was rolled back."
LEFT = "The task closed or replaced the connection {!r} that its transaction is on."
ENDED = (
    "The task ended the transaction on {!r} that it runs in: what it wrote before that may be "
    "committed. A task with atomic=True must leave commit, rollback and autocommit alone."
)
SWALLOWED = (
    "The task caught an error after which the transaction on {!r} can only be rolled back. "
    "Let such an error pass, or catch it outside an inner transaction.atomic()."
)
OPEN = "The task left an inner transaction.atomic() open on {!r}."


class Undo(BaseException):
    """Leaves a transaction, so that it is rolled back."""


def in_transaction(run: Run, body: Callable[[], End], *, worker: UUID, options: Options) -> End:
    """Return what the body returns, as its end; when it was committed the outcome is set."""
    if (fault := misplaced(options)) is not None:
        return None, InvalidTask(fault)
    return _Transaction(run, worker=worker, options=options).attempt(body)


class _Transaction:
    """The transaction of one run, on the Django connection of its thread."""

    def __init__(self, run: Run, *, worker: UUID, options: Options) -> None:
        self._run = run
        self._worker = worker
        self._options = options
        self._alias = options.database
        self._database = SiteDatabase(self._alias)
        self._end: End = None, None
        self._outcome: Outcome | None = None
        self._committed = False

    def attempt(self, body: Callable[[], End]) -> End:
        connection = connections[self._alias]
        manual = False
        try:
            manual = not connection.get_autocommit()  # by the site's settings
            if manual:
                connection.set_autocommit(True)
            with transaction.atomic(using=self._alias, durable=True):
                self._work(connection, body)
        except Undo:
            return self._end
        except BaseException as fault:  # of the database, or of what the task did to it
            if not self._committed:
                return self._end if self._end[1] is not None else (None, fault)
            logger.exception("job %s has committed; what came after it failed", self._run.job.id)
        finally:
            is_other = connections[self._alias] is not connection
            if manual or is_other or connection.atomic_blocks or connection.in_atomic_block:
                drop(connection)  # as the task has left it, the next run cannot use it
        return self._conclude()

    def _work(self, connection: BaseDatabaseWrapper, body: Callable[[], End]) -> None:
        """Do all that the transaction holds; what is raised rolls it back."""
        began = begin_own(self._database)
        transaction.on_commit(self._note_commit, using=self._alias)
        self._end = body()
        value, error = self._end
        if error is not None:
            raise Undo
        require_whole(connection)
        outcome, fault = outcomes.returned(self._run.job, value, options=self._options)
        if fault is not None:
            raise Undo  # and it is judged outside, as any
        contain_callbacks(connection, job=self._run.job.id)
        self._run.settling = True  # from here on the lease may be gone because of us
        self._settle(outcome, began)
        self._outcome = outcome

    def _settle(self, outcome: Outcome, began: str) -> None:
        own = settle_own(outcome, began=began, worker=self._worker, database=self._database)
        if not own.same:
            raise TransactionManagementError(ENDED.format(self._alias))
        if not own.done:
            raise WorkerLost(GONE)

    def _note_commit(self) -> None:
        self._committed = True

    def _conclude(self) -> End:
        if not self._committed:
            return None, TransactionManagementError(ENDED.format(self._alias))
        self._run.outcome = self._outcome
        object.__setattr__(self._run.result, "_return_value", self._end[0])
        return self._end


def require_whole(connection: BaseDatabaseWrapper, *, depth: int = 0) -> None:
    """Raise unless a transaction can commit what a task wrote in it.

    ``depth``: how many savepoints its block is in.
    """
    alias, raw = connection.alias, connection.connection
    if connections[alias] is not connection or raw is None or raw.closed:
        raise TransactionManagementError(LEFT.format(alias))
    if connection.closed_in_transaction:
        raise TransactionManagementError(LEFT.format(alias))
    status = raw.info.transaction_status
    if status not in (ACTIVE, ABORTED) or not connection.in_atomic_block:
        raise TransactionManagementError(ENDED.format(alias))
    if status == ABORTED or connection.needs_rollback:
        raise TransactionManagementError(SWALLOWED.format(alias))
    if len(connection.savepoint_ids) != depth:
        raise TransactionManagementError(OPEN.format(alias))


def contain_callbacks(connection: BaseDatabaseWrapper, *, job: int) -> None:
    """Let no callback on commit stop another, or be taken for a failure of the job."""
    registered: list[Any] = connection.run_on_commit
    registered[:] = [
        (points, partial(_call_back, function, job), robust)
        for points, function, robust in registered
    ]


def _call_back(function: Callable[[], Any], job: int) -> None:
    try:
        function()
    except BaseException:
        name = getattr(function, "__qualname__", function)
        logger.exception("job %s has committed; its callback %s failed", job, name)
