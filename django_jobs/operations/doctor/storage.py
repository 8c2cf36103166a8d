"""Are the tables fit: their indexes, their cleaning, and what holds it back?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.apps import apps
from django.db.models import UniqueConstraint

from django_jobs.operations.doctor.finding import Exam, Finding, named, span

MOST = 20  # holders of old row versions that are read
HELD_SECONDS = (300.0, 3600.0)  # for a warning and an error
HELD_AGE = 1_000_000  # transactions since, where no time is known: a slot, a stranger's session
DEAD_FACTOR = 10  # times what autovacuum should let come
DEAD_LEAST = 10_000  # rows; fewer cost nothing

# As the migrations set them; one that an operator has changed is theirs to know.
SETTINGS: dict[str, dict[str, str]] = {
    "django_jobs_lease": {"fillfactor": "50", "autovacuum_vacuum_scale_factor": "0"},
    "django_jobs_worker": {"fillfactor": "50", "autovacuum_vacuum_scale_factor": "0"},
    "django_jobs_limit": {"fillfactor": "50", "autovacuum_vacuum_scale_factor": "0"},
    "django_jobs_job": {"autovacuum_vacuum_scale_factor": "0.02"},
    "django_jobs_event": {"autovacuum_vacuum_scale_factor": "0.02"},
}


def _metas() -> list[Any]:
    models = apps.get_app_config("django_jobs").get_models()
    found = [model._meta for model in models]  # noqa: SLF001 - which Django documents
    return [meta for meta in found if not meta.proxy]


def tables() -> list[str]:
    """Return the names of our tables."""
    return sorted({meta.db_table for meta in _metas()})


# Indexes


def expected() -> set[str]:
    """Return the indexes that the models name; those of keys have names of Django's own."""
    unique = {
        each.name
        for meta in _metas()
        for each in meta.constraints
        if isinstance(each, UniqueConstraint)
    }
    return unique | {index.name for meta in _metas() for index in meta.indexes}


def indexes(exam: Exam) -> Iterator[Finding]:
    """Look for indexes that are missing, or that a broken migration left invalid."""
    rows = exam.fetch("doctor_indexes", tables=tables())
    if not rows:  # told with the migrations
        return
    invalid = sorted(index for _, index, valid in rows if index is not None and not valid)
    missing = sorted(expected() - {index for _, index, _ in rows})
    facts = {"invalid": invalid, "missing": missing}
    for index in invalid:
        sentence = f"The index {index} is invalid: it is written and never read."
        yield Finding(
            "indexes", "error", sentence, f"Run: REINDEX INDEX CONCURRENTLY {index};", facts
        )
    if missing:
        sentence = f"Indexes are missing: {named(missing)}."
        cure = "Run: manage.py sqlmigrate django_jobs, and make them again as it shows."
        yield Finding("indexes", "error", sentence, cure, facts)
    if not invalid and not missing:
        yield Finding("indexes", "ok", f"All {len(rows)} indexes are there and valid.")


# What is dead


class Table(NamedTuple):
    """How one table stands."""

    name: str
    options: list[str]
    live: int
    dead: int
    cleaned: float | None  # seconds since; None: never
    size: int  # bytes

    @property
    def settings(self) -> dict[str, str]:
        """Its own storage settings."""
        return dict(option.split("=", 1) for option in self.options)


def vacuum(exam: Exam) -> Iterator[Finding]:
    """Look whether dead rows are cleared away, and by which settings."""
    [server] = exam.fetch("doctor_server")
    found = [Table(*row) for row in exam.fetch("doctor_tables", tables=tables())]
    if not server[3]:
        sentence = "Autovacuum or track_counts is off on this server: nothing is cleared away."
        cure = "Run: ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on;"
        yield Finding("autovacuum", "error", f"{sentence}", f"{cure} SELECT pg_reload_conf();")
    faults = [fault for table in found for fault in _settings(table)]
    yield from faults
    if server[3] and not faults:
        yield Finding("autovacuum", "ok", "Autovacuum is on, with the settings of the migrations.")
    dead = [table for table in found if table.dead > _bearable(table)]
    for table in dead:
        when = "never" if table.cleaned is None else f"{span(table.cleaned)} ago"
        sentence = (
            f"{table.name} has {table.dead:,} dead rows beside {table.live:,} live ones; "
            f"it was last vacuumed {when}."
        )
        cure = "See what holds it back under snapshots; if nothing does: VACUUM " + table.name
        facts = {"table": table.name, "dead": table.dead, "live": table.live, "bytes": table.size}
        yield Finding("dead_rows", "warning", sentence, f"{cure};", facts)
    if not dead:
        worst = max((table.dead for table in found), default=0)
        yield Finding("dead_rows", "ok", f"No table of ours has more than {worst:,} dead rows.")


def _settings(table: Table) -> Iterator[Finding]:
    facts = {"table": table.name, "settings": table.settings}
    if table.settings.get("autovacuum_enabled", "on") in ("off", "false", "no", "0"):
        cure = f"Run: ALTER TABLE {table.name} RESET (autovacuum_enabled);"
        yield Finding("autovacuum", "error", f"Autovacuum is off for {table.name}.", cure, facts)
    asked = SETTINGS.get(table.name, {})
    missing = {name: value for name, value in asked.items() if name not in table.settings}
    if missing:
        told = ", ".join(f"{name} = {value}" for name, value in missing.items())
        sentence = f"{table.name} has lost settings that its migration made: {told}."
        cure = f"Run: ALTER TABLE {table.name} SET ({told});"
        yield Finding("autovacuum", "warning", sentence, cure, facts)


def _bearable(table: Table) -> float:
    """Return how many dead rows are no reason for a word."""
    settings = table.settings
    share = float(settings.get("autovacuum_vacuum_scale_factor", 0.2))
    threshold = float(settings.get("autovacuum_vacuum_threshold", 50))
    return max(DEAD_FACTOR * (threshold + share * table.live), DEAD_LEAST)


# What holds cleaning back


class Holder(NamedTuple):
    """What may still look at old row versions, so that none of them can be cleared away."""

    kind: str  # session, standby, prepared, slot
    name: str | None  # its user, or what it is called
    pid: int | None
    application: str | None
    state: str | None
    seconds: float | None  # None: not known
    age: int  # transactions since

    @property
    def sentence(self) -> str:
        """Say what it is, and since when."""
        since = f"{self.age:,} transactions" if self.seconds is None else span(self.seconds)
        who = {
            "session": f"A transaction of {self.name}",
            "standby": f"A query on the standby of {self.name}",
            "prepared": f"The prepared transaction {self.name!r}",
            "slot": f"The replication slot {self.name!r}",
        }[self.kind]
        more = [
            self.application or "",
            f"process {self.pid}" if self.pid else "",
            self.state or "",
        ]
        told = ", ".join(each for each in more if each)
        return f"{who} ({told}) has kept dead rows from being cleared away for {since}."

    @property
    def cure(self) -> str:
        """Say how to end it."""
        return {
            "session": f"End it: SELECT pg_terminate_backend({self.pid}); and set "
            "idle_in_transaction_session_timeout for its role.",
            "standby": "End the query there, or turn hot_standby_feedback off.",
            "prepared": f"COMMIT PREPARED or ROLLBACK PREPARED '{self.name}';",
            "slot": f"Start its reader, or: SELECT pg_drop_replication_slot('{self.name}');",
        }[self.kind]

    @property
    def rank(self) -> int:
        """0: no matter; 1: a warning; 2: an error."""
        if self.seconds is None:
            return int(self.age >= HELD_AGE)
        return sum(self.seconds >= each for each in HELD_SECONDS)


def holders(exam: Exam) -> list[Holder]:
    """Return what holds cleaning back, the longest first."""
    return [Holder(*row) for row in exam.fetch("doctor_horizon", most=MOST)]


def snapshots(exam: Exam) -> Iterator[Finding]:
    """Look for transactions that have been open for long, anywhere in the cluster."""
    found = holders(exam)
    long = [each for each in found if each.rank]
    for each in long:
        level = "error" if each.rank > 1 else "warning"
        yield Finding("snapshots", level, each.sentence, each.cure, each._asdict())  # type: ignore[arg-type]
    if not long:
        oldest = max((each.seconds or 0.0 for each in found), default=0.0)
        yield Finding("snapshots", "ok", f"The oldest transaction is {span(oldest)} old.")
