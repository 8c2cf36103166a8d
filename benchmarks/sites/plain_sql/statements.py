"""The claim and the settle that are shipped, and what they are given here.

Nothing of django_jobs is imported: only its .sql files are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SQL = Path(__file__).resolve().parents[3] / "django_jobs" / "sql"
WORKER = "00000000-0000-4000-8000-000000000001"
LEASE = 30.0
BEAT: Mapping[str, Any] = {
    "worker": WORKER,
    "backend": "default",
    "name": "plain",
    "pid": 1,
    "version": "0",
    "queues": ["default"],
    "state": "running",
    "capacity": 1000,
    "in_flight": 0,
    "idle": False,
    "cron": False,
    "health": None,
    "epoch": 1,
    "loop_age": 0.0,
    "lease": LEASE,
    "quiet": 20.0,
    "renew": LEASE / 3,
    "aliases": [],
    "labels": [],
    "resources": "{}",
    "slots": "{}",
    "default_slots": 1000,
}
LEASE_COLUMN, JOB_COLUMN = 8, 9  # of a claim's row
# The same columns as an enqueue of django_jobs writes, and a bell for the one who LISTENs.
INSERT = """
    INSERT INTO django_jobs_job (backend, task, queue, priority, state, args, kwargs,
        max_attempts, backoff, backoff_base, backoff_cap, backoff_jitter, keep_dead, idempotent)
    VALUES ('default', 'plain', 'default', 0, 'ready', '[]', '{}',
        3, 'exponential', 2, 600, 0.25, true, true)
    RETURNING id, pg_notify('plain', '')
"""


def load(name: str) -> str:
    """Return the text of one statement."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def claim_of(room: int) -> dict[str, Any]:
    """Return what a claim of up to ``room`` jobs from one queue is given."""
    return {
        "worker": WORKER,
        "epoch": 1,
        "backend": "default",
        "room": room,
        "lease": LEASE,
        "queues": ["default", "default"],
        "placements": "{0,0}",
        "suspects": "{false,true}",
        "alones": "{false,true}",
        "slots": f"{{{room},{room}}}",
        "held": "{0,0}",
        "served": "{0,0}",
        "costs": "{1,1}",
        "turns": "{0,0}",
        "floor_orders": "{-101,-101}",
        "floor_ids": "{0,0}",
    }


def settle_of(claimed: Sequence[tuple[Any, ...]], result: str) -> dict[str, Any]:
    """Return what a settle of successes is given."""
    count = len(claimed)
    return {
        "worker": WORKER,
        "leases": [row[LEASE_COLUMN] for row in claimed],
        "jobs": [row[JOB_COLUMN] for row in claimed],
        "states": ["succeeded"] * count,
        "results": [result] * count,
        "refunds": [0] * count,
        **{
            name: [None] * count
            for name in (
                "delays",
                "run_afters",
                "errors",
                "fingerprints",
                "kinds",
                "datas",
                "placements",
            )
        },
    }
