"""A real worker in the process of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS
from django_jobs.conf import Options
from django_jobs.worker import Worker


@contextmanager
def running_worker(
    *,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    **options: Any,
) -> Iterator[Worker]:
    """Run a real worker in a thread, for a TransactionTestCase.

    At the end it drains, and every thread and connection of it is gone, so that the test
    database can be dropped. Schedules fire only where ``cron`` is among the ``options``, for
    what they enqueue depends on when the test is run.
    """
    worker = Worker(Options(backend, **options), cron="cron" in options)
    thread = Thread(target=worker.run, name="jobs-loop", daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(worker.options.drain_seconds + 5)
        worker.join()
