"""django_jobs as this checkout has it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks.environment import ROOT, Environment
from benchmarks.systems import Command

SETTINGS = "benchmarks.sites.ours.settings"
ENVIRONMENT = Environment("ours", (f"--editable {ROOT}", "psycopg[binary]"))


def variables(url: str, **options: object) -> dict[str, str]:
    """Return the environment of a process: which database, which OPTIONS."""
    return {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "BENCH_DATABASE": url,
        "BENCH_OPTIONS": json.dumps(options),
    }


def at_cap(url: str, cap: int, **options: object) -> dict[str, str]:
    """Return the environment of a worker whose one queue may fill it."""
    queues = {"default": {"slots": cap}}
    return variables(url, max_in_flight=cap, queues=queues, **options)


@dataclass(frozen=True, slots=True)
class Ours:
    """django_jobs."""

    name: str = "ours"
    label: str = "django_jobs"
    environment: Environment = ENVIRONMENT
    table: str = "django_jobs_job"
    claimer: str = "jobworker loop"

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
        return Command(("-m", "django", "jobworker"), at_cap(url, cap))

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
        return "SELECT EXISTS (SELECT FROM django_jobs_job WHERE finished_at IS NULL)"

    def wrong(self) -> str:
        """An attempt is counted at every claim, and an event tells every other end."""
        return (
            "SELECT count(*) FROM django_jobs_job j WHERE state <> 'succeeded' OR attempt <> 1"
            " OR EXISTS (SELECT FROM django_jobs_event e WHERE e.job_id = j.id)"
        )

    def starts(self) -> str:
        """The task returned its clock."""
        return "SELECT id::text, result::float8 FROM django_jobs_job WHERE result <> 'null'"


SYSTEM = Ours()
