"""``manage.py jobworker``: parse, build a Worker, run it."""

from __future__ import annotations

import os
import sys
import traceback
from argparse import ArgumentParser
from typing import Any, NoReturn

from django.core.management.base import BaseCommand

from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS
from django_jobs.exceptions import DatabaseRefused
from django_jobs.management.probing import answer_probes
from django_jobs.metrics.server import serve
from django_jobs.ports import EVERYWHERE, PortRefused
from django_jobs.worker.flags import UsageError, build, count
from django_jobs.worker.lifeline import Held, held
from django_jobs.worker.logs import log_to_stderr
from django_jobs.worker.reload import run_reloading
from django_jobs.worker.sign import announce_processes
from django_jobs.worker.supervisor import MOST, Supervisor
from django_jobs.worker.worker import Worker

FAULT = 1  # Python's own
BAD_OPTION = 2
REFUSED = 3


class Command(BaseCommand):
    """Runs one worker in this process's main thread, or several in processes of their own."""

    help = (
        "Run jobs until stopped. SIGTERM or Ctrl-C drains: nothing more is claimed, what runs"
        " is finished within the drain timeout, the rest is handed back. A second one hands"
        " back at once."
    )
    requires_system_checks = ()  # our own are made here, and end with status 2

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the flags; their values are judged together with the settings."""
        add = parser.add_argument
        add("--max-in-flight", metavar="N", help="most jobs held at a time (setting: 6)")
        add(
            "--queue",
            action="append",
            metavar="NAME[:WEIGHT]",
            help="serve this queue; repeatable; default: the setting QUEUES",
        )
        add("--lease", metavar="SECONDS", help="how long a job is ours between renewals (30)")
        add("--drain-timeout", metavar="SECONDS", help="how long a stop waits for runs (25)")
        add("--timeout", metavar="SECONDS", help="of a run whose task names none (none)")
        add("--no-listen", action="store_true", help="poll only")
        add("--name", help="shown to operators, and what jobs may require; the host's own name")
        add(
            "--label",
            action="append",
            metavar="LABEL",
            help="offered to jobs that require it; repeatable; beside the setting labels",
        )
        add(
            "--resource",
            action="append",
            metavar="NAME=AMOUNT",
            help="such as memory_mb=8000; repeatable; goes before the setting resources",
        )
        add("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="alias in TASKS (default)")
        add("--no-cron", action="store_true", help="leave the schedules to other workers")
        add("--once", action="store_true", help="run what is ready, then exit")
        add("--max-jobs", metavar="N", help="exit after so many jobs")
        add("--processes", metavar="N", help="run so many workers, and restart those that die (1)")
        add("--metrics-port", metavar="PORT", help="serve metrics; 0: on any free port (none)")
        add("--metrics-host", default=EVERYWHERE, metavar="ADDRESS", help="there (0.0.0.0)")
        add("--health-port", metavar="PORT", help="answer probes; 0: on any free port (none)")
        add("--health-host", default=EVERYWHERE, metavar="ADDRESS", help="there (0.0.0.0)")
        add("--reload", action="store_true", help="restart when a source file changes")

    def handle(self, **given: Any) -> None:
        """Run a worker, or a parent of workers, and exit with its status."""
        parent = held()
        if given["reload"] and "reload" not in parent.does:
            sys.exit(run_reloading())
        log_to_stderr(verbosity=given["verbosity"], pid=given["processes"] is not None)
        try:
            processes = count("--processes", given["processes"], most=MOST) or 1
            worker = build(given)
        except UsageError as error:
            self._refuse(error, BAD_OPTION)
        if processes > 1 and "processes" not in parent.does:
            sys.exit(self._supervise(worker, processes, parent, once=given["once"]))
        self._listen(worker, given)
        self._work(worker, parent)

    def _supervise(self, worker: Worker, processes: int, parent: Held, *, once: bool) -> int:
        """Run workers like this one, which itself never begins."""
        announce_processes(worker, processes)
        drain_seconds = worker.options.drain_seconds
        return Supervisor(processes, drain_seconds=drain_seconds, once=once).run(parent)

    def _listen(self, worker: Worker, given: dict[str, Any]) -> None:
        """Open the ports that were asked for."""
        try:
            serve(given["metrics_port"], host=given["metrics_host"])
            answer_probes(worker, given["health_port"], host=given["health_host"])
        except PortRefused as error:
            self._refuse(error, BAD_OPTION)

    def _work(self, worker: Worker, parent: Held) -> NoReturn:
        worker.handle_signals()
        parent.watch(worker.stop)
        try:
            status = worker.run()
        except DatabaseRefused as error:
            self._refuse(error, REFUSED)
        except BaseException:
            if worker.has_cut_off_runs:  # else Python would wait for those in a pool's threads
                traceback.print_exc()
                self._leave(FAULT, at_once=True)
            raise
        self._leave(status, at_once=worker.has_cut_off_runs)

    def _refuse(self, error: Exception, status: int) -> NoReturn:
        self.stderr.write(f"jobworker: {error}")
        sys.exit(status)

    def _leave(self, status: int, *, at_once: bool) -> NoReturn:
        """Exit; a run that was cut off cannot be ended, so nothing may wait for it."""
        sys.stdout.flush()
        sys.stderr.flush()
        if at_once:
            os._exit(status)
        sys.exit(status)
