"""Gauges of the queues, by one bounded statement at a scrape."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from django_jobs.metrics.figures import MOST_QUEUES, Figures, QueueFigures, Source
from django_jobs.metrics.wanted import wanted

PATIENCE_SECONDS = 0.7  # that a scrape waits for the databases

Of = Callable[[QueueFigures], float]

# By the name: what it tells, and how it is read.
BY_QUEUE: dict[str, tuple[str, Of]] = {
    "django_jobs_queue_depth": ("Jobs that are ready.", lambda of: of.ready),
    "django_jobs_oldest_ready_seconds": (
        "For how long the oldest ready job could have been claimed.",
        lambda of: of.oldest,
    ),
    "django_jobs_dead_jobs": ("Dead letters.", lambda of: of.dead),
    "django_jobs_scheduled_jobs": ("Jobs whose time has not come.", lambda of: of.scheduled),
    "django_jobs_blocked_jobs": ("Jobs that wait for a limit.", lambda of: of.blocked),
}
Merge = Callable[[Iterable[float]], float]

# As above, and how the figures of several databases are taken together.
TOTALS: dict[str, tuple[str, Callable[[Figures], float], Merge]] = {
    "django_jobs_live_workers": (
        "Workers that were heard of within two renewals.",
        lambda of: of.workers,
        sum,
    ),
    "django_jobs_running_jobs": (
        "Jobs under a lease, in the whole fleet.",
        lambda of: of.running,
        sum,
    ),
    "django_jobs_stuck_runs": (
        "Runs that are over their timeout and have not ended.",
        lambda of: of.stuck,
        sum,
    ),
    "django_jobs_notification_queue_ratio": (
        "How much of PostgreSQL's queue of notifications is used, 0 to 1.",
        lambda of: of.notifications,
        max,
    ),
    "django_jobs_oldest_snapshot_seconds": (
        "For how long the oldest transaction has kept old row versions from being cleared away.",
        lambda of: of.snapshot,
        max,
    ),
}


class DatabaseCollector(Collector):
    """Asks each database that holds jobs; the last answer serves when one does not answer."""

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin anew, as after a fork: locks and threads were the parent's."""
        self._lock = Lock()
        self._sources: dict[str, Source] = {}

    def describe(self) -> Iterable[Metric]:
        """Yield the names alone: registering it asks no database."""
        return _families({}, [], ok=False)

    def collect(self) -> Iterable[Metric]:
        """Yield every gauge."""
        asked = wanted()
        sources = [self._source(alias) for alias in asked]
        for source, each in zip(sources, asked.values(), strict=True):
            source.ask(each)
        deadline = monotonic() + PATIENCE_SECONDS  # one for all of them
        answers = [source.answer(deadline=deadline) for source in sources]
        found = [figures for figures, _ in answers if figures is not None]
        ok = all(works for _, works in answers)
        return _families(_queues(found), found, ok=ok)

    def _source(self, alias: str) -> Source:
        with self._lock:
            if alias not in self._sources:
                self._sources[alias] = Source(alias)
            return self._sources[alias]


def _queues(found: list[Figures]) -> dict[str, QueueFigures]:
    """Return the figures by name; of a database that never answered there are none."""
    queues: dict[str, QueueFigures] = {}
    for figures in found:
        for name, figure in figures.queues.items():
            if name in queues or len(queues) < MOST_QUEUES:
                queues[name] = queues.get(name, QueueFigures()) + figure
    return queues


def _families(
    queues: dict[str, QueueFigures], found: list[Figures], *, ok: bool
) -> Iterable[Metric]:
    for name, (text, of) in BY_QUEUE.items():
        family = GaugeMetricFamily(name, text, labels=["queue"])
        for queue, figures in queues.items():
            family.add_metric([queue], of(figures))
        yield family
    for name, (text, total, merge) in TOTALS.items():
        family = GaugeMetricFamily(name, text)
        if found:
            family.add_metric([], merge(map(total, found)))
        yield family
    age = GaugeMetricFamily("django_jobs_scrape_age_seconds", "How old the gauges of queues are.")
    if found:
        age.add_metric([], max(monotonic() - figures.at for figures in found))
    yield age
    text = "1 while every database with jobs answers, 0 when the gauges are the last known ones."
    yield GaugeMetricFamily("django_jobs_scrape_ok", text, float(ok))


DATABASE = DatabaseCollector()
