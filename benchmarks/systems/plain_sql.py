"""The floor: django_jobs' own claim and settle, sent by psycopg from one thread, no Django."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.environment import Environment
from benchmarks.systems import Command, ours

PROGRAM = ("-m", "benchmarks.sites.plain_sql")
ENVIRONMENT = Environment("plain_sql", ("psycopg[binary]",))


@dataclass(frozen=True, slots=True)
class PlainSQL:
    """Plain SQL on the tables of django_jobs."""

    name: str = "plain_sql"
    label: str = "plain SQL"
    environment: Environment = ENVIRONMENT
    table: str = "django_jobs_job"
    claimer: str = "plain_sql"

    def prepare(self, url: str) -> None:
        """Let django_jobs make its tables."""
        ours.SYSTEM.prepare(url)

    def fill(self, url: str, jobs: int) -> str:
        """Let django_jobs fill them."""
        return ours.SYSTEM.fill(url, jobs)

    def worker(self, url: str, *, cap: int) -> Command:
        """Claim and settle in batches of ``cap``."""
        return Command((*PROGRAM, "drain", str(cap)), {"BENCH_DATABASE": url})

    def waker(self, url: str) -> Command:
        """LISTEN, and claim one job a bell."""
        return Command((*PROGRAM, "listen"), {"BENCH_DATABASE": url})

    def enqueuer(self, url: str, *, count: int, seed: int) -> Command:
        """INSERT … RETURNING id, pg_notify(…)."""
        words = (*PROGRAM, "enqueue", str(count), str(seed))
        return Command(words, {"BENCH_DATABASE": url})

    def is_final(self) -> str:
        """As django_jobs."""
        return ours.SYSTEM.is_final()

    def unfinished(self) -> str:
        """As django_jobs."""
        return ours.SYSTEM.unfinished()

    def count(self) -> str:
        """As django_jobs."""
        return ours.SYSTEM.count()

    def wrong(self) -> str:
        """As django_jobs."""
        return ours.SYSTEM.wrong()

    def starts(self) -> str:
        """It writes the moment of the claim's answer as the result."""
        return ours.SYSTEM.starts()


SYSTEM = PlainSQL()
