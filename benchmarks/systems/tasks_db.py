"""django-tasks-db: Django's Tasks on a table, one job at a time in each worker process.

Its settings that move the drain rate were found by reading its worker and then measured one
by one; ``benchmarks/cases/tuning.py`` repeats that at the start of a run, and the best of them
is what the others are compared with.

- It calls ``close_old_connections()`` twice a job: with Django's default ``CONN_MAX_AGE`` of 0
  it connects anew for each.
- ``--queue-name '*'`` leaves out the filter on the queue.
- ``--interval`` is slept only when the queue was empty; 0 is best for the time to start.
- ``--verbosity 0`` leaves out two log lines a job.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks.environment import Environment
from benchmarks.systems import Command

SETTINGS = "benchmarks.sites.tasks_db.settings"
# Before Django 6, which needs Python 3.12, it wants the backport.
PACKAGE = "django-tasks-db[compat]" if sys.version_info < (3, 12) else "django-tasks-db"
ENVIRONMENT = Environment("tasks_db", (PACKAGE, "psycopg[binary]"))


@dataclass(frozen=True, slots=True)
class TasksDB:
    """django-tasks-db with one choice of settings."""

    name: str = "tasks_db"
    label: str = "django-tasks-db"
    environment: Environment = ENVIRONMENT
    table: str = "django_tasks_database_dbtaskresult"
    claimer: str = "tasks_db"
    persistent: bool = True
    every_queue: bool = True
    quiet: bool = True
    server_binding: bool = False

    def _variables(self, url: str) -> dict[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "BENCH_DATABASE": url,
            "BENCH_PERSISTENT": str(int(self.persistent)),
            "BENCH_SERVER_BINDING": str(int(self.server_binding)),
        }

    def setting(self) -> str:
        """Say the choice in words."""
        words = [
            "CONN_MAX_AGE = None" if self.persistent else "CONN_MAX_AGE = 0",
            "--interval 0",
            "--queue-name '*'" if self.every_queue else "",
            "--verbosity 0" if self.quiet else "",
            "server_side_binding" if self.server_binding else "",
        ]
        return ", ".join(filter(None, words))

    def prepare(self, url: str) -> None:
        """Migrate."""
        words = ("-m", "django", "migrate", "--verbosity", "0")
        self.environment.run(*words, env=self._variables(url))

    def fill(self, url: str, jobs: int) -> str:
        """Write the rows that its backend would write, in bulk."""
        words = ("-m", "benchmarks.sites.tasks_db", "fill", str(jobs))
        return self.environment.run(*words, env=self._variables(url)).strip()

    def worker(self, url: str, *, cap: int) -> Command:
        """Run its command; it has no cap."""
        words = ["-m", "django", "db_worker", "--interval", "0", "--no-startup-delay"]
        words += ["--queue-name", "*"] if self.every_queue else []
        words += ["--verbosity", "0"] if self.quiet else []
        return Command(tuple(words), self._variables(url))

    def waker(self, url: str) -> Command:
        """It polls all the time, which is the fastest it can start a job."""
        return self.worker(url, cap=1)

    def enqueuer(self, url: str, *, count: int, seed: int) -> Command:
        """Enqueue through the task."""
        words = ("-m", "benchmarks.sites.tasks_db", "enqueue", str(count), str(seed))
        return Command(words, self._variables(url))

    def is_final(self) -> str:
        """Look at one row."""
        return f"SELECT finished_at IS NOT NULL FROM {self.table} WHERE id = %s::uuid"

    def unfinished(self) -> str:
        """Look at all."""
        return f"SELECT EXISTS (SELECT FROM {self.table} WHERE finished_at IS NULL)"

    def count(self) -> str:
        """Count all."""
        return f"SELECT count(*) FROM {self.table}"

    def wrong(self) -> str:
        """A worker's id is added at every claim."""
        return (
            f"SELECT count(*) FROM {self.table} WHERE status <> 'SUCCESSFUL'"
            " OR jsonb_array_length(worker_ids) <> 1"
        )

    def starts(self) -> str:
        """The task returned its clock."""
        return (
            f"SELECT id::text, (return_value #>> '{{}}')::float8 FROM {self.table}"
            " WHERE jsonb_typeof(return_value) = 'number'"
        )


SYSTEM = TasksDB()
