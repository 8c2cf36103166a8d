"""django_jobs as this checkout has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.environment import ROOT, Environment
from benchmarks.systems import Command

QUEUES = ("default",)
SETTINGS = "benchmarks.sites.ours.settings"
ENVIRONMENT = Environment("ours", (f"--editable {ROOT}", "psycopg[binary]"))


def variables(url: str, served: Sequence[str] = QUEUES, **options: object) -> dict[str, str]:
    """Return the environment of a process: which database, which QUEUES and OPTIONS."""
    return {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "BENCH_DATABASE": url,
        "BENCH_QUEUES": json.dumps(served),
        "BENCH_OPTIONS": json.dumps(options),
    }


def at_cap(
    url: str, cap: int, served: Sequence[str] = QUEUES, **options: object
) -> dict[str, str]:
    """Return the environment of a worker of which each queue may fill all."""
    slots = {name: {"slots": cap} for name in served}
    return variables(url, served, max_in_flight=cap, queues=slots, **options)


@dataclass(frozen=True, slots=True)
class Ours:
    """django_jobs; jobs with an ``id`` up to ``last_ballast`` are there but not measured."""

    name: str = "ours"
    label: str = "django_jobs"
    environment: Environment = ENVIRONMENT
    table: str = "django_jobs_job"
    claimer: str = "jobworker loop"
    queues: tuple[str, ...] = QUEUES
    last_ballast: int = 0

    def prepare(self, url: str) -> None:
        """Migrate."""
        words = ("-m", "django", "migrate", "--run-syncdb", "--verbosity", "0")
        self.environment.run(*words, env=variables(url))

    def fill(self, url: str, jobs: int) -> str:
        """Enqueue them in bulk."""
        words = ("-m", "benchmarks.sites.ours", "fill", str(jobs))
        return self.environment.run(*words, env=variables(url)).strip()

    def worker(self, url: str, *, cap: int) -> Command:
        """Run the command as users do."""
        return Command(("-m", "django", "jobworker"), at_cap(url, cap, self.queues))

    def waker(self, url: str) -> Command:
        """Keep the default cap."""
        return self.worker(url, cap=6)

    def enqueuer(self, url: str, *, count: int, seed: int) -> Command:
        """Enqueue through the task."""
        words = ("-m", "benchmarks.sites.ours", "enqueue", str(count), str(seed))
        return Command(words, variables(url))

    def is_final(self) -> str:
        """Look at one row."""
        return "SELECT finished_at IS NOT NULL FROM django_jobs_job WHERE id = %s::bigint"

    def unfinished(self) -> str:
        """Look at all."""
        return f"SELECT EXISTS (SELECT FROM {self._measured()} WHERE finished_at IS NULL)"

    def count(self) -> str:
        """Count all."""
        return f"SELECT count(*) FROM {self._measured()}"

    def wrong(self) -> str:
        """An attempt is counted at every claim, and an event tells every other end."""
        return (
            f"SELECT count(*) FROM {self._measured()} WHERE state <> 'succeeded' OR attempt <> 1"
            " OR EXISTS (SELECT FROM django_jobs_event e WHERE e.job_id = j.id)"
        )

    def _measured(self) -> str:
        """Return the measured rows as ``j``, always read along the key.

        A range with both bounds is believed to be small, and nothing passes OFFSET.
        """
        most = 2**62
        return (
            f"(SELECT * FROM {self.table} WHERE id > {self.last_ballast} AND id < {most}"
            " OFFSET 0) j"
        )

    def starts(self) -> str:
        """The task returned its clock."""
        return "SELECT id::text, result::float8 FROM django_jobs_job WHERE result <> 'null'"


SYSTEM = Ours()
