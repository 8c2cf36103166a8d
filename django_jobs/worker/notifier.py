"""Tells the world that jobs have ended, after the commit and beside the loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import sleep

from django_jobs.compat import task_backends
from django_jobs.operations.announce import send_finished
from django_jobs.operations.results import results
from django_jobs.tasks import JobResult
from django_jobs.worker.connection import Failure
from django_jobs.worker.site_connections import close_connections

logger = logging.getLogger("django_jobs.worker")

IDLE_SECONDS = 5.0
MOST_RESULTS = 1000  # kept in memory; of later ones only the ids
RETRY_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # between tries to read a result


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has reached a final state; without a result it is read from its row."""

    job: int
    backend: str
    result: JobResult | None = None


class Notifier:
    """Sends task_finished once per final job; a slow receiver stops nothing."""

    def __init__(self, *, database: str) -> None:
        """``database``: the alias whose Django connection reads results."""
        self._database = database
        self._senders: dict[str, type] = {}
        self._queue: SimpleQueue[Ended | Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="jobs-notifier", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, ended: Ended) -> None:
        """Announce a job; returns at once."""
        if self._queue.qsize() >= MOST_RESULTS:  # receivers are slow: read it again later
            ended = Ended(ended.job, ended.backend)
        self._queue.put(ended)

    def tell(self, call: Callable[[], None]) -> None:
        """Call ``call``, which announces something else; returns at once."""
        self._queue.put(call)

    def finish(self, seconds: float) -> None:
        """Announce what is left, for at most ``seconds``."""
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(seconds)
        if self._thread.is_alive():
            left = self._queue.qsize()
            logger.warning("receivers are slow: task_finished not sent for %s jobs", left)

    def _run(self) -> None:
        """Thread body."""
        while True:
            try:
                ended = self._queue.get(timeout=IDLE_SECONDS)
            except Empty:
                close_connections()
                ended = self._queue.get()
            if ended is None:
                break
            try:
                self.announce(ended) if isinstance(ended, Ended) else ended()
            except BaseException:  # a signal is lost, never the job: it is in its final state
                told = ended.job if isinstance(ended, Ended) else ended
                logger.exception("could not announce the end of job %s", told)
                close_connections()
            del ended
        close_connections()

    def announce(self, ended: Ended) -> None:
        """Send task_finished for one job."""
        result = ended.result or self._read(ended)
        if result is None:
            return
        send_finished(result, sender=self._sender(ended.backend))

    def _sender(self, backend: str) -> type:
        if backend not in self._senders:
            self._senders[backend] = type(task_backends[backend])
        return self._senders[backend]

    def _read(self, ended: Ended) -> JobResult | None:
        for pause in RETRY_SECONDS:
            try:
                return self._result(ended)
            except Failure:  # the line broke while nobody used it, or the database is away
                close_connections()
                sleep(pause)
        return self._result(ended)

    def _result(self, ended: Ended) -> JobResult | None:
        found = results([ended.job], backend=ended.backend, database=self._database)
        return found.get(ended.job)
