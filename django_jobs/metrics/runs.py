"""Counters and histograms of what the workers of this process have done."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from django_jobs.watchers import Ending, Working

OUTCOMES = (
    "succeeded",
    "failed",
    "dead",
    "dropped",
    "cancelled",
    "expired",
    "snoozed",
    "unknown_task",
    "handed_back",
    "rescued",
)
MOST_QUEUES = 100  # names; jobs of further queues are counted together
OTHER = "other"
BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)

TOTAL = Counter(
    "django_jobs_total",
    "Runs, and jobs that ended without one, by how they ended.",
    ["queue", "outcome"],
)
RUN_SECONDS = Histogram(
    "django_jobs_run_seconds",
    "From the call of the task to the commit of its outcome.",
    ["queue"],
    buckets=BUCKETS,
)
WAIT_SECONDS = Histogram(
    "django_jobs_wait_seconds",
    "From when a job could first have been claimed to its first attempt.",
    ["queue"],
    buckets=BUCKETS,
)


class QueueMeter:
    """The series of one queue, looked up once: finding a label costs more than counting."""

    def __init__(self, queue: str) -> None:
        """Make every series, so that each begins at 0."""
        self.total = {outcome: TOTAL.labels(queue, outcome) for outcome in OUTCOMES}
        self.run_seconds = RUN_SECONDS.labels(queue)
        self.wait_seconds = WAIT_SECONDS.labels(queue)


class RunMeter:
    """Counts what it is told of; the number of series is bounded whatever it is told."""

    def __init__(self) -> None:
        self._queues: dict[str, QueueMeter] = {}

    def started(self, worker: Working) -> None:
        """Let each series of the worker's queues be there."""
        for queue in worker.queue_names:
            self._of(queue)

    def stopped(self, worker: Working) -> None:
        """Keep what was counted: a counter never goes down."""

    def ended(self, ending: Ending) -> None:
        """Count a run, or a job that ended without one."""
        meter = self._of(ending.queue)
        meter.total[ending.outcome].inc()
        if ending.ran is not None:
            meter.run_seconds.observe(ending.ran)
        if ending.waited is not None:
            meter.wait_seconds.observe(ending.waited)

    def _of(self, queue: str) -> QueueMeter:
        if queue not in self._queues and len(self._queues) >= MOST_QUEUES:
            queue = OTHER
        if queue not in self._queues:  # made twice by two threads it is the same series
            self._queues[queue] = QueueMeter(queue)
        return self._queues[queue]


RUNS = RunMeter()
