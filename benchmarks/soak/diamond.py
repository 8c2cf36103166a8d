"""One job, many behind it, one behind all of them, while workers are killed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import sleep

from benchmarks.environment import ROOT, variables
from benchmarks.processes import Processes, wait_for
from benchmarks.progress import say
from benchmarks.server import Connection, Server, ask
from benchmarks.soak.counted import ENDED, RESCUES, SCHEMA, Count, facts
from benchmarks.soak.fleet import Fleet
from benchmarks.soak.run import DATABASE, LONGEST, Verdict
from benchmarks.systems import ours

ENQUEUE = """
import sys, django
django.setup()
from benchmarks.soak.jobs import noted
from django_jobs import chain, group
middle, seconds = int(sys.argv[1]), float(sys.argv[2])
call = noted.s(seconds)
chain(call, group([call] * middle), call).enqueue()
"""
TIES = "FROM django_jobs_dependency d JOIN django_jobs_job p ON p.id = d.parent"
CLAIMS = {
    "jobs that are missing": "SELECT {jobs} - count(*) FROM django_jobs_job",
    "dependencies that are missing": "SELECT {ties} - count(*) FROM django_jobs_dependency",
    "jobs that did not succeed": "SELECT count(*) FROM django_jobs_job WHERE state <> 'succeeded'",
    "jobs whose end was not written exactly once": """
        SELECT count(*) FROM django_jobs_job j
        WHERE (SELECT count(*) FROM soak_end e WHERE e.job = j.id) <> 1
    """,
    "runs that began before a parent had ended": f"""
        SELECT count(*) {TIES} JOIN soak_ledger l ON l.job = d.child AND l.at < p.finished_at
    """,
    "leases left": "SELECT count(*) FROM django_jobs_lease",
}


@dataclass(frozen=True, slots=True)
class Diamond:
    """One such soak; when workers are killed follows from the seed."""

    seed: int
    middle: int = 998
    seconds: float = 0.1  # of each job
    workers: int = 4
    cap: int = 6
    kills: int = 10
    lease: float = 3.0

    @property
    def jobs(self) -> int:
        """How many jobs it has."""
        return self.middle + 2

    def moments(self) -> list[int]:
        """Return after how many ends each kill comes; one is the last job's own."""
        chosen = Random(self.seed)
        early = sorted(chosen.randrange(int(self.middle * 0.9)) for _ in range(self.kills - 1))
        return [*early, self.middle + 1]


def soak_diamond(plan: Diamond) -> Verdict:
    """Run it; a failure of the harness itself raises."""
    with TemporaryDirectory(prefix="django_jobs-soak-") as folder, Server() as server:
        url = server.url(server.create(name=DATABASE))
        env = ours.at_cap(url, plan.cap, lease_seconds=plan.lease)
        _run(env, "-m", "django", "migrate", "--verbosity", "0")
        with Processes(Path(folder)) as processes:
            watcher = server.connect(DATABASE)
            try:
                return _disturb(plan, watcher, Fleet(processes, env), env)
            finally:
                watcher.close()


def _run(env: dict[str, str], *words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, cwd=ROOT, env=variables(env))


def _disturb(plan: Diamond, watcher: Connection, fleet: Fleet, env: dict[str, str]) -> Verdict:
    watcher.execute(SCHEMA.encode())
    fleet.start(plan.workers)
    fleet.wait_until_registered(watcher, plan.workers)
    _run(env, "-c", ENQUEUE, str(plan.middle), str(plan.seconds))
    say(f"a diamond of {plan.jobs} jobs, {plan.workers} workers at cap {plan.cap}")
    hits = _kill(plan, watcher, fleet)
    wait_for(
        lambda: ask(watcher, ENDED) == plan.jobs, seconds=LONGEST, what="all to end", pause=0.1
    )
    ill = fleet.stop()
    counts = [_count(name, query, plan, watcher) for name, query in CLAIMS.items()]
    counts.append(Count("kills of workers that held jobs", hits, "at least", plan.kills))
    counts.append(Count("rescues", ask(watcher, RESCUES), "at least", plan.kills))
    return Verdict(counts, facts(watcher), ill)


def _kill(plan: Diamond, watcher: Connection, fleet: Fleet) -> int:
    """Kill at each moment one that holds jobs; return how many left any behind."""
    hits, chance = 0, Random(plan.seed + 1)
    for moment in plan.moments():
        left = 0
        while not left and (ended := ask(watcher, ENDED)) < plan.jobs:
            left = fleet.kill_one(watcher, chance) if ended >= moment else 0
            sleep(0.002)
        if left:
            hits += 1
            say(f"kill -9 number {hits} at {ask(watcher, ENDED)} ended jobs: it held {left}")
    return hits


def _count(name: str, query: str, plan: Diamond, watcher: Connection) -> Count:
    numbers = {"jobs": plan.jobs, "ties": 2 * plan.middle}
    return Count(name, ask(watcher, query.format(**numbers)))
