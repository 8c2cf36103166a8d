"""Runs the chosen cases, system after system, and fills the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.cases import clients, counts, drain, enqueue, latency, tuning
from benchmarks.figures import Bound, Target, middle, percentile
from benchmarks.progress import say
from benchmarks.report import Report, Row
from benchmarks.server import Server
from benchmarks.systems import System, tasks_db

MILLI, MICRO = 1e3, 1e6
CAP = 50  # of the targets


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    repetitions: int = 5
    jobs: int = 20_000
    slow_jobs: int = 1_000  # for who runs hundreds a second, not thousands
    enqueues: int = 200
    pairs: int = 600
    counted: int = 5_000
    clocked: float = 6.0  # seconds of many clients

    def jobs_of(self, system: System) -> int:
        """Return a number of jobs that keeps a system busy for seconds."""
        return self.slow_jobs if system.name == "tasks_db" else self.jobs


QUICK = Sizes(
    repetitions=3, jobs=4_000, slow_jobs=300, enqueues=40, pairs=200, counted=2_000, clocked=2.0
)


class Bench:
    """One run: environments, servers with a template for each system, cases."""

    def __init__(self, systems: list[System], sizes: Sizes, caps: list[int], report: Report):
        self.systems = systems
        self.sizes = sizes
        self.caps = caps
        self.report = report
        self._server: Server
        self._templates: dict[str, str]

    def run(self, cases: list[str]) -> None:
        """Run the timed cases on one server and the counting one on another."""
        steps: dict[str, Callable[[], None]] = {
            "tuning": self.tuning,
            "drain": self.drain,
            "latency": self.latency,
            "enqueue": self.enqueue,
            "clients": self.clients,
        }
        with ExitStack() as stack:
            self._open(stack.enter_context(Server()))
            for name, step in steps.items():
                if name in cases:
                    step()
        if "counts" in cases:
            with Server(counting=True) as server:
                self._open(server)
                self.counts()

    def _open(self, server: Server) -> None:
        """Migrate once for each system; cases begin with a copy."""
        self._server = server
        self._templates = {}
        for system in self.systems:
            say(f"preparing {system.label}")
            self._templates[system.name] = server.create(name=f"template_{system.name}")
            system.prepare(server.url(self._templates[system.name]))

    def _turns(self) -> Iterator[tuple[int, System]]:
        """Yield every system once a repetition, each time another first."""
        for number in range(self.sizes.repetitions):
            first = number % len(self.systems)
            for system in [*self.systems[first:], *self.systems[:first]]:
                yield number, system

    def tuning(self) -> None:
        """Find the best setting of django-tasks-db; it is measured with that from here on."""
        names = [system.name for system in self.systems]
        if "tasks_db" not in names:
            return
        rates = tuning.tune(
            self._server, self._templates["tasks_db"], jobs=self.sizes.slow_jobs, repetitions=3
        )
        self.systems[names.index("tasks_db")] = tuning.best(rates)
        for candidate, found in rates.items():
            self._add("tuning", candidate, "jobs/s", found, note=candidate.setting())

    def drain(self) -> None:
        """Drain at each cap."""
        for cap in self.caps:
            rates: dict[str, list[float]] = {system.name: [] for system in self.systems}
            for _, system in self._turns():
                jobs = self.sizes.jobs_of(system)
                template = self._templates[system.name]
                got = drain.drain(system, self._server, template, jobs=jobs, cap=cap)
                rates[system.name].append(got.rate)
                say(f"drain at cap {cap}: {system.label}: {got.rate:,.0f} jobs/s")
            for system in self.systems:
                note = system.setting() if isinstance(system, tasks_db.TasksDB) else ""
                self._add(f"drain, cap {cap}", system, "jobs/s", rates[system.name], note=note)
            if cap == CAP:
                self._ratio("drain: ours / django-tasks-db", "at least", 10, rates, "tasks_db")
                self._ratio("drain: ours / plain SQL", "at least", 0.25, rates, "plain_sql")

    def latency(self) -> None:
        """Time enqueue → start; the targets are about the median of one repetition."""
        halves: dict[str, list[float]] = {system.name: [] for system in self.systems}
        tails: dict[str, list[float]] = {system.name: [] for system in self.systems}
        for number, system in self._turns():
            if number >= 3:
                break
            template = self._templates[system.name]
            found = latency.latencies(
                system, self._server, template, count=self.sizes.enqueues, seed=number
            )
            halves[system.name].append(percentile(found, 50) * MILLI)
            tails[system.name].append(percentile(found, 95) * MILLI)
            say(f"enqueue to start: {system.label}: p50 {halves[system.name][-1]:.2f} ms")
        for system in self.systems:
            self._add("enqueue → start, p50", system, "ms", halves[system.name])
            self._add("enqueue → start, p95", system, "ms", tails[system.name])
        name = "enqueue → start p50: ours / plain SQL"
        self._ratio(name, "at most", 3, halves, "plain_sql")

    def enqueue(self) -> None:
        """Time one enqueue beside one create."""
        medians: dict[str, list[float]] = {"ours": [], "create": []}
        for _ in range(3):
            found = enqueue.pairs(self._server, self._templates["ours"], count=self.sizes.pairs)
            medians["ours"].append(percentile(found["enqueue"], 50) * MICRO)
            medians["create"].append(percentile(found["create"], 50) * MICRO)
            say(f"enqueue {medians['ours'][-1]:.0f} µs, create {medians['create'][-1]:.0f} µs")
        for name, label in (("ours", "enqueue"), ("create", "Model.objects.create")):
            row = ("single enqueue, p50", label, "µs", medians[name], middle(medians[name]))
            self.report.rows.append(Row(*row))
        self._ratio("enqueue p50: ours / objects.create", "at most", 1.3, medians, "create")

    def clients(self) -> None:
        """Let many clients enqueue beside workers that hear the bell, and some that do not."""
        rates: dict[str, list[float]] = {"ours": [], "unheard": []}
        for number in range(self.sizes.repetitions):
            for name in sorted(rates, reverse=bool(number % 2)):
                found = clients.enqueued(
                    self._server,
                    self._templates["ours"],
                    heard=name == "ours",
                    seconds=self.sizes.clocked,
                )
                rates[name].append(found.rate)
                say(f"{clients.CLIENTS} clients, {name}: {found}")
        for name, label in (("ours", "heard by a worker"), ("unheard", "heard by nobody")):
            case = f"enqueues of {clients.CLIENTS} clients"
            self.report.rows.append(Row(case, label, "/s", rates[name], middle(rates[name])))
        name = f"enqueues of {clients.CLIENTS} clients: with the bell / without"
        self._ratio(name, "at least", 0.8, rates, "unheard")

    def counts(self) -> None:
        """Count statements and commits."""
        for system in self.systems:
            jobs = min(self.sizes.counted, self.sizes.jobs_of(system))
            template = self._templates[system.name]
            got = counts.count(system, self._server, template, jobs=jobs, cap=CAP)
            say(f"counts: {system.label}: {got.statements} statements, {got.commits} commits")
            self._add("statements a job", system, "", [got.statements_per_job])
            self._add("commits a job", system, "", [got.commits_per_job])
            if system.name == "ours":
                target = Target("commits per job at cap 50", "at most", 0.1, got.commits_per_job)
                self.report.targets.append(target)

    def _add(
        self, case: str, system: System, unit: str, figures: list[float], *, note: str = ""
    ) -> None:
        self.report.rows.append(Row(case, system.label, unit, figures, middle(figures), note))

    def _ratio(
        self, name: str, bound: Bound, limit: float, figures: dict[str, list[float]], other: str
    ) -> None:
        """Hold the median of each repetition's own ratio against a limit.

        Those that are divided ran one after the other, so a machine that is busy for a minute
        slows both.
        """
        if "ours" in figures and other in figures:
            each = [a / b for a, b in zip(figures["ours"], figures[other], strict=True)]
            self.report.targets.append(Target(name, bound, limit, middle(each)))
