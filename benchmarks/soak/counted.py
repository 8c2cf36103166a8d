"""The side tables of the soak, and what SQL must say at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.server import Connection, ask

SCHEMA = """
    CREATE TABLE soak_ledger (
        run uuid PRIMARY KEY, job bigint NOT NULL, attempt int NOT NULL, lease bigint,
        pid int NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE TABLE soak_end (
        job bigint NOT NULL, state text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE FUNCTION soak_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO soak_end (job, state) VALUES (NEW.id, NEW.state);
        RETURN NULL;
    END $$;
    CREATE TRIGGER soak_note_end AFTER UPDATE ON django_jobs_job FOR EACH ROW
        WHEN (NEW.finished_at IS NOT NULL AND NEW.finished_at IS DISTINCT FROM OLD.finished_at)
        EXECUTE FUNCTION soak_note_end();
"""
RESCUES = "SELECT count(*) FROM django_jobs_event WHERE kind = 'rescued'"
ENDED = "SELECT count(*) FROM django_jobs_job WHERE finished_at IS NOT NULL"
# A claim is committed without waiting for its flush: a crash of the server may lose it, and
# with it the lease and the count of the attempt. A run that had begun under it and reached the
# ledger only after the restart notes no lease; its outcome is refused. It is told apart here
# , because its attempt is one that the database has never seen.
CLAIMS = {
    "jobs that are missing": "SELECT %(jobs)s - count(*) FROM django_jobs_job",
    "jobs that did not succeed": "SELECT count(*) FROM django_jobs_job WHERE state <> 'succeeded'",
    "jobs whose end was not written exactly once": """
        SELECT count(*) FROM django_jobs_job j
        WHERE (SELECT count(*) FROM soak_end e WHERE e.job = j.id) <> 1
    """,
    "leases left": "SELECT count(*) FROM django_jobs_lease",
    "leases under which a job ran twice": """
        SELECT count(*) FROM (
            SELECT FROM soak_ledger WHERE lease IS NOT NULL GROUP BY job, lease HAVING count(*) > 1
        ) twice
    """,
    "jobs whose attempt is not 1 + rescued + failed": """
        SELECT count(*) FROM django_jobs_job j WHERE attempt <> 1 + (
            SELECT count(*) FROM django_jobs_event e
            WHERE e.job_id = j.id AND e.kind IN ('rescued', 'failed'))
    """,
    "jobs that ran more often than they were attempted": """
        SELECT count(*) FROM django_jobs_job j WHERE attempt < (
            SELECT count(*) FROM soak_ledger l WHERE l.job = j.id AND l.lease IS NOT NULL)
    """,
    "jobs that ran under no lease at all": """
        SELECT count(*) FROM django_jobs_job j WHERE NOT EXISTS (
            SELECT FROM soak_ledger l WHERE l.job = j.id AND l.lease IS NOT NULL)
    """,
}
FACTS = {
    "runs": "SELECT count(*) FROM soak_ledger",
    "of them, runs whose lease was gone": "SELECT count(*) FROM soak_ledger WHERE lease IS NULL",
    "rescues": RESCUES,
    "failed attempts": "SELECT count(*) FROM django_jobs_event WHERE kind = 'failed'",
    "handed back": "SELECT count(*) FROM django_jobs_event WHERE kind = 'handed_back'",
    "processes that ran jobs": "SELECT count(DISTINCT pid) FROM soak_ledger",
    "most attempts of a job": "SELECT max(attempt) FROM django_jobs_job",
}


@dataclass(frozen=True, slots=True)
class Count:
    """A number that SQL has found, and what it has to be."""

    name: str
    found: int
    bound: Literal["at least", "exactly"] = "exactly"
    limit: int = 0

    @property
    def holds(self) -> bool:
        """True when it is what it has to be."""
        return self.found == self.limit or (self.bound == "at least" and self.found > self.limit)

    def __str__(self) -> str:
        """Say it as one line."""
        wanted = f" ({self.bound} {self.limit})" if self.bound == "at least" else ""
        return f"{'ok' if self.holds else 'WRONG'}: {self.name}: {self.found}{wanted}"


def counts(connection: Connection, *, jobs: int, rescues: int) -> list[Count]:
    """Return all that must hold after a soak."""
    found = [Count(name, _found(connection, query, jobs)) for name, query in CLAIMS.items()]
    strong = Count(
        "rescues, or the run is too weak", ask(connection, RESCUES), "at least", rescues
    )
    return [*found, strong]


def facts(connection: Connection) -> dict[str, int]:
    """Return what else a reader wants to know."""
    return {name: ask(connection, query) for name, query in FACTS.items()}


def _found(connection: Connection, query: str, jobs: int) -> int:
    row = connection.execute(query.encode(), {"jobs": jobs}).fetchone()
    return int(row[0]) if row else -1
