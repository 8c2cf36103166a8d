"""One soak from an empty server to its verdict."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.environment import ROOT, variables
from benchmarks.processes import Processes, wait_for
from benchmarks.progress import say
from benchmarks.server import Connection, Server, ask
from benchmarks.soak.chaos import Plan, Wave
from benchmarks.soak.counted import ENDED, SCHEMA, Count, counts, facts
from benchmarks.soak.fleet import Fleet
from benchmarks.systems import ours

DATABASE = "soak"
LONGEST = 600.0  # seconds until all must have ended


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a soak has shown."""

    counts: list[Count]
    facts: Mapping[str, int]
    ill: list[str]  # what is to be said of workers that ended other than they should

    @property
    def holds(self) -> bool:
        """True when every count is right and every worker ended well."""
        return not self.ill and all(count.holds for count in self.counts)

    def lines(self) -> list[str]:
        """Return it as lines."""
        told = [f"{name}: {value}" for name, value in self.facts.items()]
        return [*told, *map(str, self.counts), *(f"WRONG: {text}" for text in self.ill)]


def soak(plan: Plan) -> Verdict:
    """Run a soak; a failure of the harness itself raises."""
    with TemporaryDirectory(prefix="django_jobs-soak-") as folder, Server() as server:
        url = server.url(server.create(name=DATABASE))
        env = ours.at_cap(url, plan.cap, lease_seconds=plan.lease)
        _manage(env, "-m", "django", "migrate", "--verbosity", "0")
        with Processes(Path(folder)) as processes:
            return Soak(plan, server, Fleet(processes, env), env).run()


def _manage(env: Mapping[str, str], *words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, cwd=ROOT, env=variables(env))


class Soak:
    """The steps of one soak."""

    def __init__(self, plan: Plan, server: Server, fleet: Fleet, env: Mapping[str, str]) -> None:
        self.plan = plan
        self.server = server
        self.fleet = fleet
        self.env = env
        self.watcher: Connection = server.connect(DATABASE)
        self.sent = 0  # jobs so far
        self.hits = 0  # kills that left a lease
        self._chance = plan.chance()

    def run(self) -> Verdict:
        """Start, disturb, wait, stop, count."""
        plan = self.plan
        self.watcher.execute(SCHEMA.encode())
        self.fleet.start(plan.workers)
        self.fleet.wait_until_registered(self.watcher, plan.workers)
        say(f"{plan.jobs} jobs, {plan.workers} workers at cap {plan.cap}")
        for wave in plan.schedule():
            self._send(wave)
        wait_for(self._all_ended, seconds=LONGEST, what="all to end", pause=0.1)
        say("all jobs have ended")
        ill = self.fleet.stop()
        return self._judge(ill)

    def _judge(self, ill: list[str]) -> Verdict:
        found = counts(self.watcher, jobs=self.plan.jobs, rescues=self.plan.rescues)
        found.append(
            Count("kills of workers that held jobs", self.hits, "at least", self.plan.kills)
        )
        told = facts(self.watcher)
        self.watcher.close()
        return Verdict(found, told, ill)

    def _send(self, wave: Wave) -> None:
        """Enqueue a wave and disturb it; the enqueue is over before the server crashes."""
        before = self.sent
        self.sent += wave.jobs
        words = ["-m", "benchmarks.soak.enqueue", str(wave.jobs), str(self.plan.seconds)]
        with subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=variables(self.env)
        ) as child:
            for moment, act in wave.acts:
                while self._ended() < before + moment:
                    time.sleep(0.005)
                if act == "crash":
                    child.wait()
                    self._crash()
                else:
                    self._kill()
        if child.returncode:
            raise RuntimeError("a wave could not be enqueued")

    def _ended(self) -> int:
        found: int = ask(self.watcher, ENDED)
        return found

    def _all_ended(self) -> bool:
        """Kill on while there is something to hit, if a wave was over too soon for that."""
        if self.hits < self.plan.kills:
            self._kill()
        return self._ended() == self.plan.jobs

    def _kill(self) -> None:
        """Hit one that holds jobs, if one is found while there are any."""
        left = 0
        while not left and self._ended() < self.sent:
            left = self.fleet.kill_one(self.watcher, self._chance)
        if left:
            self.hits += 1
            say(f"kill -9 number {self.hits} at {self._ended()} ended jobs: it held {left}")

    def _crash(self) -> None:
        """Stop PostgreSQL as a crash does, and start it again."""
        say(f"PostgreSQL crashes at {self._ended()} ended jobs")
        self.watcher.close()
        self.server.private.restart("immediate")
        self.watcher = self.server.connect(DATABASE)
        say("PostgreSQL is back")
