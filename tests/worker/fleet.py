"""Real workers on a server of their own, and what that server knows of their jobs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from testproject.postgres import PrivateServer, as_url
from tests.processes import ROOT, SECONDS, JobWorkers, Process, wait_for

DATABASE = "fleet"
LEASE = 3.0
TABLES = "job, lease, event, worker, queue, placement, skip, limit, dependency, schedule"
PLAIN = {"sslmode": "disable", "gssencmode": "disable"}  # so that a proxy can read along


class Row(NamedTuple):
    """What tests ask of a job."""

    id: int
    state: str
    attempt: int
    suspect: bool
    result: Any
    error: str | None
    worker_ids: list[str]
    started_at: Any
    finished_at: Any


def migrated(server: PrivateServer) -> PrivateServer:
    """Make the fleet's database on a new server."""
    url = server.create_database(DATABASE)
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0", "--skip-checks", "--run-syncdb"],
        cwd=ROOT,
        env=_environment(url),
        check=True,
    )
    return server


def _environment(url: str) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": url, "DJANGO_JOBS_TEST_DATABASE": DATABASE}


class Fleet:
    """Starts workers, enqueues by SQL, and asks the tables."""

    def __init__(self, server: PrivateServer, processes: JobWorkers) -> None:
        self.server = server
        self.processes = processes
        self.folder = processes.folder
        self._connection: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        """Close the test's own connection."""
        if self._connection is not None:
            self._connection.close()

    # the database

    def url(self, port: int | None = None, **more: str) -> str:
        """Where workers find the database, behind a proxy's port if one is given."""
        info = {**self.server.conninfo(DATABASE), **PLAIN, **more}
        if port is not None:
            info |= {"host": "127.0.0.1", "port": str(port)}
        return as_url(info)

    def connection(self) -> psycopg.Connection[Any]:
        """The test's own connection; a new one when the server has been away."""
        if self._connection is None or self._connection.closed:
            self._connection = self.connect()
        return self._connection

    def connect(self) -> psycopg.Connection[Any]:
        """One more connection, in autocommit."""
        info = self.server.conninfo(DATABASE)
        return psycopg.connect(**info, autocommit=True, application_name="test")

    def rows(self, text: str, *params: Any) -> list[Any]:
        """Run a statement; its rows, those of one column as plain values."""
        try:
            cursor = self.connection().execute(text, params or None)
        except psycopg.OperationalError:  # the server has been away since the last statement
            if self._connection is None or not self._connection.closed:
                raise
            cursor = self.connection().execute(text, params or None)
        found = cursor.fetchall() if cursor.description else []
        return [row[0] if len(row) == 1 else row for row in found]

    def value(self, text: str, *params: Any) -> Any:
        """The first row of a statement."""
        return self.rows(text, *params)[0]

    def clear(self) -> None:
        """Empty the tables, once nobody works on them."""
        self.end_sessions(".*")
        names = ", ".join(f"django_jobs_{name}" for name in TABLES.split(", "))
        self.rows(f"TRUNCATE {names}, ledger_mark")

    def end_sessions(self, names: str = "loop|renewer|sweeper|listener") -> int:
        """Terminate sessions of workers, as an administrator would; return how many."""
        return len(
            self.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <>"
                " pg_backend_pid() AND datname = current_database() AND application_name ~ %s",
                names,
            )
        )

    def set(self, name: str, value: str | None) -> None:
        """Change a setting of the server for sessions to come, or reset it."""
        what = f"RESET {name}" if value is None else f"SET {name} = '{value}'"
        self.rows(f"ALTER SYSTEM {what}")
        self.rows("SELECT pg_reload_conf()")

    # jobs

    def put(self, task: str, *args: Any, count: int = 1, **columns: Any) -> list[int]:
        """Insert ready jobs, at once tried again by default; return their ids."""
        values = {
            "task": task,
            "args": json.dumps(args),
            "kwargs": "{}",
            "backoff": "constant",
            "backoff_base": 0.1,
            "backoff_jitter": 0.0,
            **columns,
        }
        names, places = ", ".join(values), ", ".join(["%s"] * len(values))
        return self.rows(
            f"INSERT INTO django_jobs_job ({names}) SELECT {places}"
            " FROM generate_series(1, %s) RETURNING id",
            *values.values(),
            count,
        )

    def put_one(self, task: str, *args: Any, **columns: Any) -> int:
        """Insert one ready job."""
        return self.put(task, *args, **columns)[0]

    def ring(self) -> None:
        """Ring for sleepers as an enqueue does."""
        self.rows("SELECT pg_notify('django_jobs', 'default default')")

    def job(self, pk: int) -> Row:
        """A job as it is now."""
        row = self.value(f"SELECT {', '.join(Row._fields)} FROM django_jobs_job WHERE id = %s", pk)
        return Row(*row)._replace(result=json.loads(row[4]) if row[4] else None)

    def states(self) -> Counter[str]:
        """How many jobs are in each state."""
        return Counter(self.rows("SELECT state FROM django_jobs_job"))

    def events(self, pk: int) -> list[str]:
        """The kinds of a job's events, in order."""
        return self.rows("SELECT kind FROM django_jobs_event WHERE job_id = %s ORDER BY id", pk)

    def ran(self, key: str) -> int:
        """How often the ledger has ``key``."""
        return int(self.value("SELECT count(*) FROM ledger_mark WHERE key = %s", key))

    def wait(self, text: str, *params: Any, seconds: float = SECONDS) -> None:
        """Wait until a statement answers with something true."""
        try:
            wait_for(lambda: self.value(text, *params), seconds=seconds)
        except TimeoutError as error:
            error.add_note(f"{text} {params}: {self.describe()}")
            raise

    def wait_for_state(self, pk: int, *states: str, seconds: float = SECONDS) -> None:
        """Wait until a job is in one of ``states``."""
        self.wait(
            "SELECT state = ANY (%s) FROM django_jobs_job WHERE id = %s",
            list(states),
            pk,
            seconds=seconds,
        )

    def wait_for_all(self, state: str = "succeeded", *, seconds: float = SECONDS) -> None:
        """Wait until every job is in ``state``."""
        self.wait("SELECT bool_and(state = %s) FROM django_jobs_job", state, seconds=seconds)

    def wait_for_run(self, key: str, times: int = 1, *, seconds: float = SECONDS) -> None:
        """Wait until the ledger has ``key`` so often."""
        self.wait(
            "SELECT count(*) >= %s FROM ledger_mark WHERE key = %s", times, key, seconds=seconds
        )

    def nothing_held(self) -> bool:
        """Tell whether no lease is left and no job is running."""
        left = self.value(
            "SELECT (SELECT count(*) FROM django_jobs_lease)"
            " + (SELECT count(*) FROM django_jobs_job WHERE state = 'running')"
        )
        return int(left) == 0

    def describe(self) -> str:
        """What a failing test shows."""
        with suppress(psycopg.Error):
            return f"{dict(self.states())}\n{self.logs()[-3000:]}"
        return self.logs()[-3000:]

    # workers

    def worker(self, *flags: str, port: int | None = None, **environment: str) -> Process:
        """Start a worker with a short lease; return at once."""
        words = flags if "--lease" in flags else ("--lease", f"{LEASE:g}", *flags)
        given = {"DATABASE_URL": self.url(port), **environment}
        return self.processes(*words, **{"DJANGO_JOBS_TEST_DATABASE": DATABASE, **given})

    def started(self, *flags: str, port: int | None = None, **environment: str) -> Process:
        """Start a worker; return when it works."""
        process = self.worker(*flags, port=port, **environment)
        process.wait_for_log("in flight; serves")
        return process

    def idle(self, *flags: str, port: int | None = None, **environment: str) -> Process:
        """Start a worker; return when it sleeps, and hears the bell unless told not to."""
        process = self.started(*flags, port=port, **environment)
        self.wait(
            "SELECT count(*) = 1 FROM django_jobs_worker WHERE idle AND pid = %s", process.pid
        )
        if "--no-listen" not in flags:
            self.wait(
                "SELECT count(*) >= 1 FROM pg_stat_activity WHERE datname = current_database()"
                " AND (query ILIKE 'LISTEN%%' OR application_name = 'jobworker listener')"
            )
        return process

    def command(self, *words: str) -> Process:
        """Start another management command on the same database."""
        environment = {"DATABASE_URL": self.url(), "DJANGO_JOBS_TEST_DATABASE": DATABASE}
        return self.processes.command(*words, **environment)

    def settings(self, text: str = "", **options: Any) -> dict[str, Any]:
        """The environment for workers whose settings have more options."""
        number = len(list(self.folder.glob("fleet_settings_*.py")))
        module = f"fleet_settings_{number}"
        (self.folder / f"{module}.py").write_text(
            "from tests.settings import *\nfrom tests.settings import DATABASES, TASKS\n"
            f"TASKS['default']['OPTIONS'].update({options!r})\n{text}\n"
        )
        return {"DJANGO_SETTINGS_MODULE": module, "PYTHONPATH": f"{self.folder}:{ROOT}"}

    def injected(self, code: str) -> dict[str, Any]:
        """The environment for workers that run ``code`` before anything else."""
        folder = self.folder / f"injected-{len(list(self.folder.glob('injected-*')))}"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(code)
        return {"PYTHONPATH": f"{folder}:{ROOT}"}

    def stop(self, process: Process, number: int = signal.SIGTERM) -> int:
        """Signal a worker and return its exit status."""
        process.signal(number)
        return process.wait()

    def logs(self) -> str:
        """What all workers have said."""
        return "\n".join(process.log() for process in self.processes.started)

    def lines(self, level: str) -> list[str]:
        """All lines that were logged at one level."""
        return [line for line in self.logs().splitlines() if re.search(rf"\b{level}\b", line)]


def flag_files(folder: Path) -> Iterator[Path]:
    """Names of files that tell running tasks to end."""
    number = 0
    while True:
        number += 1
        yield folder / f"end-{number}"
