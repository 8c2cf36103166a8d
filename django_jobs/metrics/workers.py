"""What the live workers of this process hold, asked of them at each scrape."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from threading import Lock

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from django_jobs.watchers import Ending, Working

VERSION = version("django_jobs")


class WorkerCollector(Collector):
    """Sums over the workers that live in this process; 0 where there is none."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._workers: set[Working] = set()

    def started(self, worker: Working) -> None:
        """Count a worker in."""
        with self._lock:
            self._workers.add(worker)

    def stopped(self, worker: Working) -> None:
        """Leave a worker out from now on."""
        with self._lock:
            self._workers.discard(worker)

    def ended(self, ending: Ending) -> None:
        """Do nothing: what they hold is asked, not counted."""

    def collect(self) -> Iterable[Metric]:
        """Yield the sums."""
        with self._lock:
            workers = list(self._workers)
        yield GaugeMetricFamily(
            "django_jobs_worker_in_flight",
            "Jobs that the live workers of this process hold.",
            sum(worker.in_flight for worker in workers),
        )
        yield GaugeMetricFamily(
            "django_jobs_worker_capacity",
            "The most jobs that the live workers of this process hold: the sum of their caps.",
            sum(worker.places for worker in workers),
        )
        yield GaugeMetricFamily(
            "django_jobs_worker_listening",
            "Live workers of this process that hear notifications.",
            sum(worker.is_listening for worker in workers),
        )
        yield GaugeMetricFamily(
            "django_jobs_worker_silent_seconds",
            "For how long the most silent loop of this process has been at one turn.",
            max((worker.silence() for worker in workers), default=0.0),
        )
        info = GaugeMetricFamily(
            "django_jobs_worker_info",
            "The live workers of this process, by the version of django_jobs.",
            labels=["version"],
        )
        info.add_metric([VERSION], len(workers))
        yield info

    def describe(self) -> Iterable[Metric]:
        """Yield the same: no statement is sent for them."""
        return self.collect()


WORKERS = WorkerCollector()
