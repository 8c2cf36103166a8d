"""No statement walks the job table, whatever the planner knows and however it plans.

A million jobs in three copies of the tables: of one the planner knows nothing, one it has
analysed, and one that it has analysed when it was empty, with generic plans that were made
then. There every statement is executed with generic and with custom plans, in a transaction
that is rolled back, and the plan is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest
from psycopg import sql

from django_jobs.metrics.connection import LIMITS
from django_jobs.sql import array, load, text_array
from django_jobs.states import FINAL
from django_jobs.worker.connection import PrivateDatabase

JOBS = 1_000_000
CAP = 1000  # the most that the settings let a worker hold
EVENTS = 200_000
TABLES = ("job", "event", "lease", "worker", "queue", "activity", "placement", "skip", "limit",
          "dependency", "schedule")  # fmt: skip
# Those that grow; the others are small.
WATCHED = {"django_jobs_job", "django_jobs_event", "django_jobs_dependency"}
MANY = 25_000  # rows: fewer than any state has here, and more than a batch needs

ME, DEAD = uuid4(), uuid4()
HELD = range(1, 1001)  # leases of mine, and the jobs under them; a hundred more have lapsed
QUEUES = ["default", "full", "mail", "empty"]
PAUSED = "photos"  # 50,000 jobs are ready in it
FOREIGN = 2  # the placement of 50,000 ready jobs of a queue that is served; no lane offers it

FILL = """
INSERT INTO django_jobs_worker (id, backend, name, pid, version, capacity, seen_at, queues)
SELECT CASE n WHEN 1 THEN %(me)s::uuid WHEN 2 THEN %(dead)s::uuid ELSE gen_random_uuid() END,
       'default', 'host' || n, n, '0', 50,
       CASE n WHEN 2 THEN now() - interval '2 hours' ELSE now() END,
       CASE WHEN n %% 2 = 0 THEN ARRAY['default', 'mail'] END
FROM generate_series(1, 20) n;

INSERT INTO django_jobs_queue (backend, name, slots, paused)
VALUES ('default', 'mail', 40, false), ('default', 'photos', NULL, true),
       ('other', 'mail', 0, true);

INSERT INTO django_jobs_job (id, task, queue, priority, placement, suspect, state, attempt,
                             life, run_after, finished_at, unique_key, expires_at,
                             limit_key, limit_size, limit_every, limit_burst)
SELECT n, 'tests.tasks.ok', queue, m %% 7 - 3,
       CASE WHEN n %% 20 = 6 THEN %(foreign)s ELSE m %% 50 / 49 END,
       state = 'ready' AND m %% 40 = 1, state,
       CASE WHEN state = 'ready' THEN m %% 3 / 2 ELSE 1 END,
       CASE WHEN m %% 9 = 0 THEN 2 ELSE 1 END,
       CASE state WHEN 'scheduled' THEN now() + (n - 900000) * interval '1 second' END,
       CASE WHEN state IN ('succeeded', 'dead', 'cancelled')
            THEN now() - (%(jobs)s - n) * interval '1 second' END,
       CASE WHEN n %% 4 = 0 THEN 'key:' || n END,
       CASE WHEN state = 'waiting' THEN now() - interval '1 minute'
            WHEN m %% 25 = 7 THEN now() + n * interval '1 second' END,
       CASE WHEN state = 'blocked' THEN 'key ' || m %% 4
            WHEN state IN ('ready', 'running') AND m %% 10 = 3 THEN 'key ' || m %% 1000 END,
       2, CASE WHEN m %% 30 = 3 THEN 0.6 END, 5
FROM (SELECT n, m,
             CASE WHEN n <= 1100 THEN 'running'
                  WHEN n %% 20 IN (0, 6, 7) THEN 'ready'
                  WHEN n %% 20 = 1 THEN 'scheduled'
                  WHEN n %% 20 = 2 THEN 'blocked'
                  WHEN n %% 100 = 3 THEN 'waiting'
                  WHEN n %% 40 = 4 THEN 'dead'
                  WHEN n %% 40 = 5 THEN 'cancelled' ELSE 'succeeded' END AS state,
             CASE WHEN n %% 20 = 0 AND n > 300000 THEN 'full'
                  WHEN n %% 20 = 6 THEN 'default' WHEN n %% 20 = 7 THEN 'photos'
                  ELSE (ARRAY['default', 'mail', 'imports', 'photos'])[m %% 4 + 1] END AS queue
      FROM (SELECT n, n / 20 AS m FROM generate_series(1, %(jobs)s) n) g) d;

INSERT INTO django_jobs_limit (key, size, in_use, next_at)
SELECT 'key ' || n, 2, 1 + n %% 2, CASE WHEN n %% 3 = 0 THEN now() + interval '3 seconds' END
FROM generate_series(0, 999) n;

INSERT INTO django_jobs_dependency (parent, child)
SELECT p, n FROM generate_series(103, %(jobs)s, 100) n, unnest(ARRAY[n - 1, n + 2]) p;

INSERT INTO django_jobs_lease (job_id, worker, limit_key, expires_at)
SELECT n, CASE WHEN n <= 1000 THEN %(me)s::uuid ELSE %(dead)s::uuid END,
       CASE WHEN n / 20 %% 10 = 3 THEN 'key ' || n / 20 %% 1000 END,
       now() + CASE WHEN n <= 1000 THEN interval '1 hour' ELSE interval '-1 minute' END
FROM generate_series(1, 1100) n;

SELECT setval(pg_get_serial_sequence('django_jobs_job', 'id'), %(jobs)s);

INSERT INTO django_jobs_placement (id, digest, labels, task)
SELECT n, lpad(to_hex(n), 32, '0'), ARRAY['gpu'], CASE WHEN n %% 10 = 0 THEN 'tests.t' || n END
FROM generate_series(1, 1000) n;

SELECT setval(pg_get_serial_sequence('django_jobs_placement', 'id'), 1000);

INSERT INTO django_jobs_schedule (id, name, task, schedule, timezone, overlap, digest,
                                  next_at, last_job)
SELECT n, 'entry ' || n, 'tests.tasks.ok', '* * * * *', 'UTC', 'skip', lpad(to_hex(n), 32, '0'),
       CASE WHEN n <> 11 THEN now() + (n - 100) * interval '1 second' END, n * 30000 + 8
FROM generate_series(1, 200) n;

SELECT setval(pg_get_serial_sequence('django_jobs_schedule', 'id'), 200);

INSERT INTO django_jobs_skip (host, placement, reason)
SELECT 'host' || h, p, CASE WHEN p %% 10 = 0 THEN 'unknown_task' ELSE 'label' END
FROM generate_series(1, 20) h, generate_series(1, 1000) p WHERE p < 990 OR h = 1;

INSERT INTO django_jobs_event (kind, attempt, life, placement, host, data)
SELECT 'skipped', 0, 0, p, 'host' || h, '{}'
FROM generate_series(1, 22) h, generate_series(1, 1000) p;

INSERT INTO django_jobs_event (job_id, kind, attempt, life, data)
SELECT (n %% %(jobs)s) * 5, CASE WHEN n %% 9 = 0 THEN 'unknown_task' ELSE 'failed' END, 1, 1, '{}'
FROM generate_series(1, %(events)s) n;
"""

RINGS = {"ring": True, "long": False}
NEW_JOB = {
    "task": "tests.tasks.ok", "queue": "mail", "priority": 0, "args": "[]", "kwargs": "{}",
    "metadata": None, "run_after": None, "delay": None, "max_attempts": 3,
    "backoff": "exponential", "backoff_base": 2.0, "backoff_cap": 600.0, "backoff_jitter": 0.25,
    "retry_on": None, "give_up_on": None, "keep_dead": True, "idempotent": True, "timeout": None,
    "trace": None,
    "expires_in": 60.0, "limit_key": "customer:7", "limit_size": 2, "limit_every": None,
    "limit_burst": 1, "limit_discard": False,
}  # fmt: skip
DIGESTS = [f"{number:032x}" for number in range(1, 201)]
FIRST = "2026-01-01T00:00:00+00:00"
FIVE_DAYS_AGO = (datetime.now(UTC) - timedelta(days=5)).isoformat()
NEEDS = {
    "digest": f"{7:032x}", "host": None, "labels": ["gpu"], "resources": '{"memory_mb":8000}',
}  # fmt: skip
ACT = {
    "verb": "requeue", "actor_id": "1", "actor_name": "ana", "via": "admin", "scope": "some",
    "reason": "", "activity": None, "final": sorted(FINAL),
    "ids": array(range(200_000, 201_000)),
}  # fmt: skip


def claim_params(room: int) -> dict[str, Any]:
    """A queue at its slots, one paused, ordinary ones with a placement, one with no job."""
    queues = [*QUEUES, PAUSED]
    wanted = [(q, p, s) for q in queues for p, s in ((0, False), (0, True), (1, False))]
    return {
        "worker": ME, "epoch": 1, "backend": "default", "room": room, "lease": 30.0,
        "queues": [queue for queue, _, _ in wanted],
        "placements": array(placement for _, placement, _ in wanted),
        "suspects": array(suspect for _, _, suspect in wanted),
        "alones": array(suspect for _, _, suspect in wanted),
        "slots": array(room for _ in wanted),
        "held": array(room if queue == "full" else 0 for queue, _, _ in wanted),
        "served": array(0 for _ in wanted),
        "costs": array(1 for _ in wanted),
        "turns": array(queues.index(queue) for queue, _, _ in wanted),
        "floor_orders": array(-101 for _ in wanted), "floor_ids": array(0 for _ in wanted),
    }  # fmt: skip


def settle_params(count: int) -> dict[str, Any]:
    """A batch with every kind of outcome."""
    states = ["succeeded", "scheduled", "dead", "ready", "scheduled"] * (count // 5)
    kinds = [None, "failed", "dead", "handed_back", "unknown_task"] * (count // 5)
    return {
        "worker": ME, "leases": array(HELD[:count]), "jobs": array(HELD[:count]),
        "states": text_array(states),
        "delays": array(5.0 if state == "scheduled" else None for state in states),
        "run_afters": text_array(None for _ in states),
        "refunds": array(int(kind in ("handed_back", "unknown_task")) for kind in kinds),
        "results": text_array("1" if kind is None else None for kind in kinds),
        "errors": text_array("ValueError: no" if kind else None for kind in kinds),
        "fingerprints": text_array("0123456789abcdef" if kind else None for kind in kinds),
        "kinds": text_array(kinds),
        "datas": text_array("{}" if kind else None for kind in kinds),
        "placements": array(2 if kind == "unknown_task" else None for kind in kinds),
    }  # fmt: skip


def many_params() -> dict[str, Any]:
    """The arrays of ``enqueue_many``, a whole batch of them."""
    arrays = {
        name: text_array([value] * 1000) if isinstance(value, str) else array([value] * 1000)
        for name, value in NEW_JOB.items()
    }
    asked = [f"{number:032x}" for number in range(100)]
    return {
        **arrays, "backend": "default", **RINGS, "digest": [*asked, *[None] * 900],
        "digests": asked, "hosts": [None] * 100, "labels": ["gpu os:linux"] * 100,
        "resources": ["{}"] * 100,
        "unique_key": [f"key:{n}" for n in range(380_000, 384_000, 4)],  # a fifth are taken
        "parents": [*["200000 200020"] * 500, *[None] * 500], "after_failure": [False] * 1000,
    }  # fmt: skip


# File name, and in what case of it if there are several, to its parameters.
PARAMS: dict[str, dict[str, Any]] = {
    "beat": {
        "worker": ME, "backend": "default", "name": "here", "pid": 1, "version": "0",
        "queues": ["default"], "state": "running", "capacity": 50, "in_flight": 50,
        "idle": False, "epoch": 1, "loop_age": 0.1, "lease": 30.0, "quiet": 0.0,
        "renew": 10.0, "aliases": ["there"], "labels": ["gpu"], "resources": "{}", "slots": "{}",
        "default_slots": 8, "cron": True, "health": None,
    },
    "cancel": {**ACT, "ids": array([*HELD[:500], *range(200_001, 210_001, 20)])},
    "claim 1": claim_params(1),
    "claim 50": claim_params(50),
    "claim 1000": claim_params(CAP),
    "clock": {},
    "dependants": {
        "worker": ME, "parents": array(range(200_105, 300_105, 100)),
        "children": array(range(300_003, 320_003, 100)),
    },
    "disable_schedule": {**ACT, "backend": "default", "name": "entry 7"},
    "doctor_begin": {"timeout": "2000ms"},
    "doctor_horizon": {"most": 20},
    "doctor_indexes": {"tables": ["django_jobs_job", "django_jobs_lease"]},
    "doctor_limits": {"looked": 100_000, "most": 500},
    "doctor_server": {},
    "doctor_tables": {"tables": ["django_jobs_job", "django_jobs_lease"]},
    "due_schedules": {"backend": "default", "digests": DIGESTS, "later": ["entry 9"]},
    "enable_schedule": {
        **ACT, "backend": "default", "name": "entry 8", "schedule": "* * * * *", "timezone": "UTC",
        "next": None,
    },
    "enqueue": {**NEW_JOB, "backend": "default", **RINGS, "lease": 30.0},
    "enqueue_tied": {
        **NEW_JOB, **NEEDS, "backend": "default", **RINGS, "unique_key": "key:400000",
        "replace": True, "parents": array([200_000, 400_020]), "after_failure": False,
    },
    "enqueue_many": many_params(),
    "epoch": {"worker": ME},
    "expire": {"limit": 1000},
    "explain_ahead": {
        "backend": "default", "queue": "full", "placement": 0, "suspect": False, "urgency": 3,
        "job": JOBS, "counted": 1001,
    },
    "explain_held": {"workers": [ME, DEAD], "queue": "mail"},
    "explain_job": {"job": 1},
    "explain_kin": {
        "job": 200_003, "done": ["succeeded"], "final": sorted(FINAL), "counted": 1001,
        "named": 20,
    },
    "explain_limit": {"key": "key 1", "job": JOBS, "urgency": 3, "named": 5, "counted": 101},
    "explain_queue": {"backend": "default", "queue": "full", "counted": 10_001},
    "fire": {
        **NEW_JOB, "backend": "default", "placement": 0, "unique_key": "key:400000",
        "schedule": 11, "due": None, "now": "now", "digest": DIGESTS[10], "next": FIRST,
        "missed": None, "occurrences": text_array([FIRST] * 100),
    },
    "forget": {"after": 86_400.0},
    "held": {"worker": ME},
    "idle": {"worker": ME, "idle": True},
    "lapsed": {},
    "limit_figures": {"keys": [f"key {n}" for n in range(10)], "named": 5, "counted": 101},
    "look": {
        "after": "", "reconcile": True, "backend": "default", "digests": text_array(DIGESTS),
        "later": text_array(["entry 9"]),
    },
    "nobody_knows": {"after": 3600.0},
    "patience": {"timeout": "100ms"},
    "pause": {**ACT, "backend": "default", "queue": "mail", "until": None},
    "ping": {},
    "placement": {**NEEDS, "task": "tests.tasks.ok"},
    "placements": {},
    "progress": {
        "leases": array(HELD), "texts": text_array(['{"done":1}'] * len(HELD)), "worker": ME,
    },
    "promote": {"limit": 1000, "worker": ME, "lease": 30.0},
    "purge": ACT,
    "purge_count": {
        "backend": "default", "state": "cancelled", "before": FIVE_DAYS_AGO, "queue": None,
        "task": "tests.tasks.ok",
    },
    "purge_due": {
        "backend": "default", "states": text_array(sorted(FINAL)), "ages": array([86_400.0] * 5),
        "afters": text_array([FIVE_DAYS_AGO, None, None, None, None]), "events": 0.0,
    },
    "purge_events": {"age": 0.0, "limit": 500},
    "purge_lock": ACT,
    "purge_old": {"ids": ACT["ids"]},
    "purge_old_lock": {
        "backend": "default", "state": "succeeded", "age": 86_400.0, "after": FIVE_DAYS_AGO,
        "limit": 500, "passed": array(range(1, 10_001)),
    },
    "purge_which": {
        "backend": "default", "state": "succeeded", "before": "2100-01-01T00:00:00Z",
        "after": None, "queue": "mail", "task": None, "limit": 1000, "passed": "{}",
    },
    "put_schedules": {
        "worker": ME, "since": None, "inherit": True, "backend": "default",
        "names": [f"entry {n}" for n in range(101, 301)], "tasks": ["tests.tasks.ok"] * 200,
        "schedules": ["0 * * * *"] * 200, "timezones": ["UTC"] * 200,
        "queues": text_array(["mail"] * 200), "catch_ups": ["all"] * 200,
        "overlaps": ["allow"] * 200, "enabled": array([True] * 200), "digests": DIGESTS,
        "next_ats": text_array([FIRST] * 200),
    },
    "queue_figures": {
        "backends": ["default"] * 4, "queues": QUEUES, "only": False, "most": 200,
        "counted": 1000,
    },
    "queue_known": {"backend": "nobody", "queue": "mail"},  # every part looks in vain
    "queue_names": {"most": 200},
    "queues": {"backend": "default"},
    "ready_placements": {"placements": array(range(100)), "counted": 1000, "lanes": 1000},
    "reconcile": {"keys": [f"key {n}" for n in range(100)]},
    "reconcile_lock": {"keys": [f"key {n}" for n in range(100)]},
    "renew": {"leases": array(HELD), "worker": ME, "lease": 30.0},
    "requeue keyed": {**ACT, "keyed": True},
    "requeue": {**ACT, "keyed": False},
    "rescue": {"quiet": 3600.0, "only": None},
    "resume": {**ACT, "backend": "default", "queue": "photos"},
    "ring": {"backend": "default", "queues": QUEUES, "lease": 30.0},
    "run_schedule": {
        **ACT, "backend": "default", "name": "entry 8", "alone": True, "job": 200_000,
    },
    "run_now": {**ACT, "ids": array(range(200_001, 220_001, 20))},
    "scrape": {
        "aliases": ["default"], "backends": ["default"] * 4, "queues": QUEUES, "most": 100,
        "counted": 1000, "lanes": 30, "looked": 100,
    },
    "skip": {
        "host": "host1", "worker": ME, "placements": array(range(1, 51)),
        "reasons": ["label"] * 50, "details": ["gpu"] * 50, "fitting": array(range(51, 101)),
        "changed": array(range(1, 26)),
    },
    "schedule": {"backend": "default", "name": "entry 8"},
    "set_limit": {**ACT, "key": "key 1", "size": 3},
    "strays": {"after": 500_000, "newest": 200, "stretch": 800},
    "settle_own": {"lease": 7, "job": 7, "result": "1", "worker": ME, "began": "now"},
    "settle 5": settle_params(5),
    "settle 100": settle_params(100),
    "time_out": {
        "leases": array(HELD), "jobs": array(HELD), "timeouts": array([2.5] * len(HELD)),
        "worker": ME,
    },
    "transaction_began": {},
    "wake": {"keys": [f"key {n}" for n in range(4)], "worker": ME, "own": None},
}  # fmt: skip
NO_PLAN = {"listen", "read_committed"}  # utility statements
# Sent over the site's connections: unprepared unless the site says so, and with its jit.
SITE = {
    "cancel", "enqueue", "enqueue_many", "enqueue_tied", "patience", "pause",
    "purge", "purge_count", "purge_lock", "purge_which", "queue_known", "requeue", "resume",
    "ring", "run_now", "set_limit",
    "disable_schedule", "enable_schedule", "run_schedule", "schedule",
    "settle_own", "transaction_began",
}  # fmt: skip
# Of the admin: over the site's connection, without jit.
LISTS = {
    "explain_ahead", "explain_held", "explain_job", "explain_kin", "explain_limit",
    "doctor_begin", "doctor_horizon", "doctor_indexes", "doctor_limits", "doctor_server",
    "doctor_tables",
    "explain_queue", "limit_figures", "queue_figures", "queue_names", "ready_placements",
    "scrape",
}  # fmt: skip
# Until its first ANALYZE the job table is believed to hold a few hundred jobs that are due, so
# a batch of a thousand is sorted out of all of them when the plan is a custom one.
SORTS_WHAT_IS_DUE = {("promote", "none", "custom"), ("promote", "empty", "custom")}
KNOWLEDGE = ("none", "fresh", "empty")
MODES = ("generic", "custom")
CASES = [
    (case, knowledge, mode)
    for case in PARAMS
    for knowledge in KNOWLEDGE
    for mode in MODES
    if not (case.partition(" ")[0] in SITE | LISTS and knowledge == "empty" and mode == "generic")
]


class Copy:
    """A copy of the tables in a schema of its own, and a worker's session that sees it."""

    def __init__(self, knowledge: str) -> None:
        self.schema = f"plans_{knowledge}"
        self.database = PrivateDatabase("default", purpose="plans")
        self.session = self.database.connection()
        self.knowledge = knowledge
        self.indexes: dict[str, tuple[str, bool]] = {}

    def fill(self) -> None:
        """Make the tables and their rows."""
        self._build()
        if self.knowledge == "empty":
            self._analyse()
            self._prepare_all()
        params = {"me": ME, "dead": DEAD, "jobs": JOBS, "events": EVENTS, "foreign": FOREIGN}
        for statement in FILL.strip().split("\n\n"):
            self.session.execute(statement, params)
        if self.knowledge == "fresh":
            self._analyse()
        if self.knowledge != "empty":
            self._prepare_all()
        self.indexes = self._indexes()

    def close(self) -> None:
        """Remove them."""
        self._run("DROP SCHEMA IF EXISTS {} CASCADE", sql.Identifier(self.schema))
        self.database.close()

    def _build(self) -> None:
        schema = sql.Identifier(self.schema)
        self._run("DROP SCHEMA IF EXISTS {0} CASCADE; CREATE SCHEMA {0}", schema)
        self._run("SET search_path = {0}, public", schema)
        for name in TABLES:
            table = sql.Identifier(f"django_jobs_{name}")
            self._run("CREATE TABLE {0}.{1} (LIKE public.{1} INCLUDING ALL)", schema, table)
            # else it is analysed behind our back
            self._run("ALTER TABLE {0}.{1} SET (autovacuum_enabled = off)", schema, table)

    def _run(self, text: str, *names: sql.Composable) -> None:
        self.session.execute(sql.SQL(text).format(*names))

    def _analyse(self) -> None:
        for name in TABLES:
            self._run("ANALYZE {}", sql.Identifier(f"django_jobs_{name}"))

    def _indexes(self) -> dict[str, tuple[str, bool]]:
        """Return index → its table, and whether it is partial."""
        found = self.session.execute(
            "SELECT i.relname, t.relname, x.indpred IS NOT NULL FROM pg_index x"
            " JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid"
            " WHERE t.relnamespace = %s::regnamespace",
            [self.schema],
        )
        return {index: (table, partial) for index, table, partial in found}

    def _prepare_all(self) -> None:
        """Prepare every statement, and let it make its generic plan now."""
        for case in PARAMS:
            name, text, _ = numbered(case)
            if name == case or case.endswith("00"):
                self.session.execute(f"PREPARE {name} AS {text}")
                self.explain(case, "generic")

    def explain(self, case: str, mode: str) -> dict[str, Any]:
        """Execute a statement and return its plan; what it wrote is undone.

        Behind a pooler a worker's session is as plain as the site's, and plans are custom.
        """
        name, _, names = numbered(case)
        values = sql.SQL(", ").join(sql.Literal(PARAMS[case][param]) for param in names)
        with self.session.transaction(force_rollback=True):
            if name in SITE | LISTS or mode == "custom":
                self._run(f"SET LOCAL plan_cache_mode = force_{mode}_plan")
                self._run("SET LOCAL enable_seqscan = on")
            if name in SITE:
                self._run("SET LOCAL jit = on")
            if name == "scrape":
                self.session.execute(LIMITS, ["0"])
            query = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {}{}").format(
                sql.Identifier(name), sql.SQL("({})").format(values) if names else sql.SQL("")
            )
            row = self.session.execute(query).fetchone()
        assert row is not None
        found: dict[str, Any] = row[0][0]
        return found


def numbered(case: str) -> tuple[str, str, list[str]]:
    """Return a statement's name, its text as PREPARE wants it, and the names of $1, $2, …"""
    name = case.partition(" ")[0]
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", number, load(name)).replace("%%", "%")
    return name, text, names


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def faults(
    explained: dict[str, Any], indexes: dict[str, tuple[str, bool]], *, most: int
) -> Iterator[str]:
    """Say what is wrong with a plan; ``most``: how many rows a scan may read."""
    if "JIT" in explained:
        yield "it is compiled"
    for node in nodes(explained["Plan"]):
        index = node.get("Index Name", "")
        table, partial = indexes.get(index, (node.get("Relation Name"), False))
        if table not in WATCHED or not node["Node Type"].endswith("Scan"):
            continue
        if node["Node Type"] == "Seq Scan":
            yield f"it scans {table}"
        if index and "Index Cond" not in node and not partial:
            yield f"it walks {index}"
        removed = sum(n for key, n in node.items() if key.startswith("Rows Removed"))
        rows = (node["Actual Rows"] + removed) * node["Actual Loops"]
        if rows > most:
            yield f"it reads {rows:.0f} rows of {table}, {removed:.0f} for nothing each time"


@pytest.fixture(scope="module")
def copies(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, Copy]]:
    """Fill all copies once."""
    with django_db_blocker.unblock(), ExitStack() as stack:
        found = {knowledge: Copy(knowledge) for knowledge in KNOWLEDGE}
        for copy in found.values():
            stack.callback(copy.close)
            copy.fill()
        yield found


@pytest.mark.django_db
@pytest.mark.parametrize(("case", "knowledge", "mode"), CASES)
def test_no_statement_walks_the_job_table(case, knowledge, mode, copies):
    copy = copies[knowledge]
    explained = copy.explain(case, mode)
    most = JOBS // 20 if (case, knowledge, mode) in SORTS_WHAT_IS_DUE else MANY
    found = list(faults(explained, copy.indexes, most=most))
    assert [] == found, f"{found}\n{json.dumps(explained, indent=1)}"


def test_every_statement_is_explained_here():
    """A new statement comes with an entry in ``PARAMS`` that makes it do its work."""
    here = {file.name.removesuffix(".sql") for file in files("django_jobs.sql").iterdir()}
    names = {name for name in here if "." not in name and not name.startswith("__")}
    assert names == {case.partition(" ")[0] for case in PARAMS} | NO_PLAN
