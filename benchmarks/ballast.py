"""Rows that a worker has nothing to do with, to see whether they cost it anything.

They are loaded before the jobs that are measured, so they are older and stand first in every
index. Whatever else they take (a placement, a paused queue) is there without them too.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.server import Connection, ask

LABEL = "nobody-has-this"
PAUSED = "paused"  # a queue that the worker serves
QUEUES = ("default", PAUSED)

STOPPED = 4  # limit keys of size 0, each with blocked jobs

# Kind → its columns: state, queue, placement, run_after, finished_at, limit_key, limit_size.
KINDS = {
    "unplaceable": (
        "'ready', 'default', (SELECT id FROM django_jobs_placement), NULL, NULL, NULL, NULL"
    ),
    "paused": f"'ready', '{PAUSED}', 0, NULL, NULL, NULL, NULL",
    "scheduled": "'scheduled', 'default', 0, now() + interval '1 day', NULL, NULL, NULL",
    "blocked": f"'blocked', 'default', 0, NULL, NULL, 'ballast ' || n % {STOPPED}, 0",
    "finished": "'succeeded', 'default', 0, NULL, now(), NULL, NULL",
    "purged": "'succeeded', 'default', 0, NULL, now() - interval '1 year', NULL, NULL",
}
PURGED = "purged"  # while the others are drained: the worker works on these too
LEAST = {kind: 0.8 if kind == PURGED else 0.9 for kind in KINDS}  # of the rate without
WORLD = f"""
    INSERT INTO django_jobs_placement (digest, labels) VALUES ('ballast', '{{{LABEL}}}');
    INSERT INTO django_jobs_queue (backend, name, paused, paused_at, paused_by)
    VALUES ('default', '{PAUSED}', true, now(), 'benchmarks');
    INSERT INTO django_jobs_limit (key, size)
    SELECT 'ballast ' || n, 0 FROM generate_series(0, {STOPPED} - 1) n
"""
# What an enqueue writes, and what else makes the row one of its kind.
LOAD = """
    INSERT INTO django_jobs_job (backend, task, priority, args, kwargs, max_attempts, backoff,
        backoff_base, backoff_cap, backoff_jitter, keep_dead, idempotent,
        state, queue, placement, run_after, finished_at, limit_key, limit_size)
    SELECT 'default', 'benchmarks.sites.ours.jobs.noop', 0, '[]', '{{}}', 3, 'exponential',
        2, 600, 0.25, true, true, {columns}
    FROM generate_series(1, {rows}) n
"""
# Nobody but the measurement decides what the planner knows.
STILL = """
    SELECT format('ALTER TABLE %s SET (autovacuum_enabled = off)', oid::regclass)
    FROM pg_class WHERE relkind = 'r' AND relname LIKE 'django\\_jobs\\_%'
"""
CLAIMED = """
    SELECT count(*) FROM django_jobs_job
    WHERE id <= %s AND (attempt <> 0 OR limit_key IS NOT NULL AND state <> 'blocked')
"""
LEFT = """
    SELECT count(*) FROM django_jobs_job WHERE id <= %s AND finished_at < now() - interval '1 day'
"""


def prepare(connection: Connection) -> None:
    """Make what both sides of the comparison have; no autovacuum comes by itself."""
    connection.execute(WORLD.encode())
    for (statement,) in connection.execute(STILL.encode()).fetchall():
        connection.execute(statement.encode())


def load(connection: Connection, kinds: Sequence[str], rows: int) -> int:
    """Insert ``rows`` of each kind, one statement a kind; return the last id."""
    for kind in kinds:
        connection.execute(LOAD.format(columns=KINDS[kind], rows=rows).encode())
    return int(ask(connection, "SELECT coalesce(max(id), 0) FROM django_jobs_job"))


def check(connection: Connection, last: int) -> None:
    """Prove that no row of the ballast has been claimed or woken."""
    if claimed := ask(connection, CLAIMED, last):
        raise AssertionError(f"{claimed} jobs of the ballast were claimed")


def check_purge(connection: Connection, last: int, rows: int) -> int:
    """Prove that the purge was at work to the end of the drain; return how many it has left."""
    left = int(ask(connection, LEFT, last))
    if not 0 < left < rows:
        raise AssertionError(f"{left} of {rows} rows were left when the drain had ended")
    return left
