"""Migrations on a database that is in use: nobody waits long, nothing is lost, old code runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.apps import apps
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from psycopg import sql

from django_jobs.models import Event, Job, Queue, Worker
from tests import backends
from tests.processes import wait_for

pytestmark = pytest.mark.django_db

APP = "django_jobs"
FIRST = "0001_initial"
GIVEN_UP = 2.0  # seconds that a migration waits for a lock
OLD_CODE = Path(__file__).parent / "old_code"  # the statements that ran before 0002
# A migration that makes indexes, the one before it, its first index, and what is written then.
INDEXES = {
    "0005_event_placement": (
        "0004_worker",
        "django_jobs_event_placement",
        "INSERT INTO django_jobs_event (kind, attempt, life) VALUES ('failed', 1, 1)",
    ),
    "0009_flow_indexes": (
        "0008_lease",
        "django_jobs_job_blocked",
        "INSERT INTO django_jobs_job (task) VALUES ('tests.tasks.ok')",
    ),
}


class Site:
    """A database of its own, and sessions on it."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        self.name = name
        self._stack = stack
        self.session = self.connect()  # migrates
        self.other = self.connect()  # looks on

    def connect(self) -> BaseDatabaseWrapper:
        """Open one more session, which waits ten seconds for a lock."""
        wrapper = self._stack.enter_context(backends.opened())
        wrapper.settings_dict["NAME"] = self.name
        wrapper.settings_dict["OPTIONS"]["options"] = "-c lock_timeout=10s"
        wrapper.inc_thread_sharing()
        return wrapper

    def migrate(self, target: str | None = None) -> None:
        """Migrate to ``target``, or to the latest."""
        with self.used():
            executor = MigrationExecutor(self.session)
            leaves = executor.loader.graph.leaf_nodes(APP)
            executor.migrate(leaves if target is None else [(APP, target)])

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let what asks for the default alias have this database, in this thread."""
        others = connections["default"]
        connections["default"] = self.session
        try:
            yield
        finally:
            connections["default"] = others

    def ask(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a query in another session than that which migrates."""
        return asked(self.other, query, *params)


def asked(wrapper: BaseDatabaseWrapper, query: str, *params: Any) -> list[tuple[Any, ...]]:
    with wrapper.cursor() as cursor:
        cursor.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def site(db: None) -> Iterator[Site]:
    """Make a database with nothing in it."""
    name = f"{connection.settings_dict['NAME']}_migrations"
    with backends.opened() as admin, ExitStack() as stack:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        make = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        admin.ensure_connection()
        admin.connection.execute(drop)
        admin.connection.execute(make)
        stack.callback(admin.connection.execute, drop)
        yield Site(name, stack)


@pytest.fixture
def old_site(site: Site) -> Site:
    """Let the old code have worked in it."""
    site.migrate(FIRST)
    old_code_works(site.other)
    return site


# The code before 0002.

NEW_JOB = {
    "backend": "default", "ring": True, "task": "tests.tasks.ok", "queue": "mail", "priority": 0,
    "args": "[]", "kwargs": "{}", "metadata": None, "run_after": None, "delay": None,
    "max_attempts": 3, "backoff": "exponential", "backoff_base": 2.0, "backoff_cap": 600.0,
    "backoff_jitter": 0.25, "retry_on": None, "give_up_on": None, "keep_dead": True,
    "idempotent": True,
}  # fmt: skip
BEAT = {
    "backend": "default", "name": "old", "pid": 1, "version": "0", "queues": None,
    "state": "running", "capacity": 6, "in_flight": 0, "idle": True, "epoch": 1,
    "loop_age": 0.1, "lease": 30.0, "quiet": 20.0,
}  # fmt: skip


def old(wrapper: BaseDatabaseWrapper, statement: str, **params: Any) -> list[tuple[Any, ...]]:
    """Run a statement as it was."""
    text = re.sub(r"\s*--.*", "", (OLD_CODE / f"{statement}.sql").read_text(encoding="utf-8"))
    with wrapper.cursor() as cursor:
        cursor.execute(text, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def old_code_works(wrapper: BaseDatabaseWrapper) -> None:
    """Let a worker of the old code beat, and run one job to its end and one to its retry."""
    me = uuid4()
    for _ in "12":  # its insert and its update
        assert [(1,)] == old(wrapper, "beat", worker=me, **BEAT)
    old(wrapper, "enqueue", **NEW_JOB)
    many = {name: [NEW_JOB[name]] for name in NEW_JOB if name not in {"backend", "ring"}}
    old(wrapper, "enqueue_many", **many, backend="default", ring=False)
    asked(
        wrapper,
        "INSERT INTO django_jobs_queue (backend, name, paused, paused_until, slots)"
        " VALUES ('default', 'mail', true, now(), 4) ON CONFLICT DO NOTHING",
    )
    lane = {"queues": ["mail"], "placements": [0], "suspects": [False], "slots": [4]}
    lane |= {"held": [0], "served": [0], "costs": [1], "turns": [0]}
    claimed = old(
        wrapper, "claim", worker=me, epoch=1, backend="default", room=6, lease=30.0, **lane
    )
    leases, jobs = [row[4] for row in claimed], [row[5] for row in claimed]
    assert 2 == len(jobs)
    assert None not in jobs
    outcomes = {
        "states": ["succeeded", "scheduled"], "delays": [None, 60.0], "run_afters": [None, None],
        "refunds": [0, 0], "results": ["1", None], "errors": [None, "E: no"],
        "fingerprints": [None, "f"], "kinds": [None, "failed"], "datas": [None, "{}"],
    }  # fmt: skip
    settled = old(wrapper, "settle", worker=me, leases=leases, jobs=jobs, **outcomes)
    assert ["settled", "settled"] == [answer for _, answer, _ in settled]


def test_the_old_code_works_on_the_new_tables() -> None:
    old_code_works(connection)
    assert {None} == set(Job.objects.values_list("timeout", flat=True))  # left to the worker


def test_the_old_verbs_of_sweeper_and_operator_work_on_the_new_tables() -> None:
    old_code_works(connection)
    asked(
        connection,
        "INSERT INTO django_jobs_lease (job_id, worker, expires_at)"
        " SELECT id, gen_random_uuid(), 'epoch' FROM django_jobs_job WHERE state = 'scheduled'",
    )
    Job.objects.filter(state="scheduled").update(state="running")
    assert 1 == len(old(connection, "rescue", quiet=20.0, only=None))
    ids = list(Job.objects.filter(state="succeeded").values_list("pk", flat=True))
    act: dict[str, Any] = {"actor_id": None, "actor_name": "ana", "via": "cli", "verb": "requeue"}
    act |= {"scope": "one job", "reason": "", "activity": None, "final": ["succeeded"]}
    [(_, _, _, _, refused)] = old(connection, "requeue", ids=ids, **act)
    assert refused is None


# What is there afterwards.

CATALOG = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND {here}""",
    "indexes": """
        SELECT c.relname, replace(pg_get_indexdef(i.indexrelid), %(schema)s || '.', ''),
               i.indisvalid, i.indisready
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE {here}""",
    "constraints": """
        SELECT c.relname, k.conname, k.contype, pg_get_constraintdef(k.oid), k.convalidated
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        WHERE k.contype <> 'n' AND {here}""",
    "storage": "SELECT c.relname, c.reloptions::text FROM pg_class c WHERE {here}",
}
HERE = "c.relnamespace = %(schema)s::regnamespace AND c.relname LIKE 'django\\_jobs\\_%%'"


def catalog(wrapper: BaseDatabaseWrapper, schema: str = "public") -> dict[str, set[Any]]:
    """Return what PostgreSQL knows of the tables."""
    found = {}
    with wrapper.cursor() as cursor:
        for kind, query in CATALOG.items():
            cursor.execute(query.format(here=HERE), {"schema": schema})
            found[kind] = set(cursor.fetchall())
    return found


def test_a_database_with_jobs_ends_as_an_empty_one_does(old_site: Site) -> None:
    old_site.migrate()
    assert catalog(connection) == catalog(old_site.session)


def test_the_migrations_make_what_the_models_say(site: Site) -> None:
    site.migrate()
    asked(site.session, "CREATE SCHEMA fresh; SET search_path = fresh")
    with site.used(), site.session.schema_editor() as editor:
        for model in apps.get_app_config(APP).get_models():
            if model._meta.managed and not model._meta.proxy:
                editor.create_model(model)
    migrated, fresh = catalog(site.session), catalog(site.session, "fresh")
    for kind in ("columns", "indexes", "constraints"):
        assert fresh[kind] == migrated[kind], kind


def test_rows_are_kept_and_new_columns_have_their_defaults(old_site: Site) -> None:
    columns = old_site.ask(
        "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute"
        " WHERE attrelid = 'django_jobs_job'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    query = f"SELECT {columns[0][0]} FROM django_jobs_job ORDER BY id"
    before = old_site.ask(query)
    assert 2 == len(before)
    old_site.migrate()
    assert before == old_site.ask(query)
    with old_site.used():
        worker, queue = Worker.objects.get(), Queue.objects.get()
        assert ([], [], {}, {}, None) == (
            worker.aliases, worker.labels, worker.resources, worker.slots, worker.default_slots,
        )  # fmt: skip
        assert (10.0, 30.0) == (worker.renew_seconds, worker.lease_seconds)
        assert (True, 4, None, None, None) == (
            queue.paused, queue.slots, queue.paused_at, queue.paused_by, queue.paused_reason,
        )  # fmt: skip
        event = Event.objects.get()
        assert (None, None) == (event.placement, event.host)
        assert {None} == set(Job.objects.values_list("timeout", flat=True))


def test_each_step_back_leads_to_the_tables_of_before(old_site: Site) -> None:
    rows = old_site.ask("SELECT * FROM django_jobs_job ORDER BY id")
    before = {}
    for name in steps():
        old_site.migrate(name)
        before[name] = catalog(old_site.session)
    for name in reversed(steps()):
        old_site.migrate(name)
        assert before[name] == catalog(old_site.session), name
    assert rows == old_site.ask("SELECT * FROM django_jobs_job ORDER BY id")
    old_code_works(old_site.other)
    old_site.migrate()
    assert catalog(connection) == catalog(old_site.session)


# While others work.


def steps() -> list[str]:
    """Return the names of the migrations, in order."""
    executor = MigrationExecutor(connection)
    [leaf] = executor.loader.graph.leaf_nodes(APP)
    return [name for app, name in executor.loader.graph.forwards_plan(leaf) if app == APP]


@contextmanager
def watched(site: Site) -> Iterator[tuple[set[str], list[str]]]:
    """Collect the tables that are locked against everybody, and what is sent."""
    locked: set[str] = set()
    sent: list[str] = []

    def look(execute: Callable[..., Any], query: str, *rest: Any) -> Any:
        sent.append(str(query))
        result = execute(query, *rest)
        found = site.session.connection.execute(
            "SELECT relation::regclass::text FROM pg_locks JOIN pg_class c ON c.oid = relation"
            " WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock' AND c.relkind = 'r'"
        )
        locked.update(name for (name,) in found if name.startswith("django_jobs_"))
        return result

    with site.session.execute_wrapper(look):
        yield locked, sent


def tables(site: Site) -> set[str]:
    found = site.ask("SELECT relname FROM pg_class WHERE relkind = 'r'")
    return {name for (name,) in found}


@pytest.mark.parametrize("back", [False, True])
def test_a_migration_locks_one_table_in_use_and_gives_it_up_soon(site: Site, back: bool) -> None:
    names = steps()
    site.migrate(FIRST)
    theirs = tables(site)
    hot = set()
    targets = names[1:]
    if back:
        site.migrate()
        targets = names[-2::-1]
    for name in targets:
        with watched(site) as (locked, sent):
            site.migrate(name)
        in_use = locked & theirs
        hot |= in_use
        assert len(in_use) <= 1, (name, in_use)
        if in_use:
            first = next(place for place, query in enumerate(sent) if "ALTER TABLE" in query)
            assert any("SET LOCAL lock_timeout" in query for query in sent[:first]), name
    assert {f"django_jobs_{name}" for name in ("event", "job", "lease", "queue", "worker")} == hot


def test_no_migration_writes_a_table_anew(old_site: Site) -> None:
    files = "SELECT relname, pg_relation_filenode(oid) FROM pg_class WHERE relkind = 'r'"
    theirs = dict(old_site.ask(files))
    for name in steps()[1:]:
        old_site.migrate(name)
        now = dict(old_site.ask(files))
        assert theirs == {table: now[table] for table in theirs}, name


@pytest.mark.parametrize("back", [False, True])
def test_a_migration_does_not_wait_for_an_open_transaction_and_can_be_run_again(
    old_site: Site, back: bool
) -> None:
    if back:
        old_site.migrate()
    target = FIRST if back else None
    clerk = old_site.connect()
    clerk.set_autocommit(False)
    old(clerk, "enqueue", **NEW_JOB)
    began = time.monotonic()
    with pytest.raises(OperationalError) as caught:
        old_site.migrate(target)
    assert isinstance(caught.value.__cause__, psycopg.errors.LockNotAvailable)
    # The session's own limit is ten: by it ends an index that is dropped while others work.
    assert time.monotonic() - began < (10 if back else GIVEN_UP) + 5
    clerk.commit()  # the job is there
    old_site.migrate(target)
    assert 3 == len(old_site.ask("SELECT 1 FROM django_jobs_job"))
    if not back:
        assert catalog(connection) == catalog(old_site.session)


@contextmanager
def building(site: Site, name: str) -> Iterator[Future[None]]:
    """Migrate in a thread while another session has written a row and not committed."""
    before, _index, written = INDEXES[name]
    site.migrate(before)
    clerk = site.connect()
    clerk.set_autocommit(False)
    asked(clerk, written)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(site.migrate, name)
        try:
            wait_for(lambda: waits(site), what="Nobody waits for the clerk.")
            yield future
        finally:
            clerk.commit()


def waits(site: Site) -> bool:
    """Tell whether somebody waits in this database to have an index."""
    found = site.ask(
        "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted"
        " AND a.datname = current_database() AND a.query LIKE 'CREATE INDEX CONCURRENTLY%%'"
    )
    return bool(found)


def is_valid(site: Site, name: str) -> list[bool]:
    index = INDEXES[name][1]
    found = site.ask("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", index)
    return [valid for (valid,) in found]


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_that_was_broken_off_is_made_anew(old_site: Site, name: str) -> None:
    with building(old_site, name) as future:
        old_site.ask("SELECT pg_cancel_backend(%s)", old_site.session.connection.info.backend_pid)
        assert isinstance(future.exception(timeout=10), OperationalError)
    assert [False] == is_valid(old_site, name)
    old_site.migrate()
    assert [True] == is_valid(old_site, name)
    assert catalog(connection) == catalog(old_site.session)


@pytest.mark.parametrize("name", INDEXES)
def test_nobody_waits_while_the_index_is_made(old_site: Site, name: str) -> None:
    with building(old_site, name) as future:
        old_code_works(old_site.other)
        assert not future.done()
    future.result(timeout=10)
    assert [True] == is_valid(old_site, name)
