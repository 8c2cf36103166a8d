"""A host writes down what it passes over when that changed, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import Thread
from time import monotonic
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection

from django_jobs.conf import Options
from django_jobs.models import Event, Job, Placement, Skip
from django_jobs.models import Worker as WorkerRow
from django_jobs.operations.forget import forget
from django_jobs.operations.place import place
from django_jobs.placement import Host, Needs, Requires
from django_jobs.sql import Row, SiteDatabase
from django_jobs.worker import Worker
from django_jobs.worker.capacity import Capacity
from django_jobs.worker.connection import PrivateDatabase
from django_jobs.worker.hosting import AGAIN_SECONDS, MANY, Hosting
from tests.operations.desk import desks, silence
from tests.processes import wait_for

HERE = SiteDatabase("default")
FIGURES = "seq_scan, idx_scan, n_tup_ins, n_tup_upd, n_tup_del"

pytestmark = pytest.mark.django_db(transaction=True)


def placement(**asked: Any) -> int:
    """The id of a placement; ``task`` goes beside the rest."""
    task = asked.pop("task", None)
    return place(Needs(requires=Requires(**asked), task=task), database=HERE)


@contextmanager
def worker(name: str, **options: Any) -> Iterator[Worker]:
    """A worker whose threads the test is."""
    known = Options("default", **{"max_in_flight": 1, **options})
    made = Worker(known, name=name, queues=["default"])
    try:
        made.loop.epoch = made.register()
        made.renewer.note_beat()
        yield made
    finally:
        for database in made._databases.values():
            database.close()


def make_pass(made: Worker) -> None:
    """Do what loop and sweeper do in turn."""
    made.loop.turn(claiming=True)
    made.sweeper.sweep()


def figures(*workers: Worker) -> list[Any]:
    """What the server counts of the two tables, once every session has reported."""
    for made in workers:
        for database in (made.loop.database, made.sweeper.database):
            database.connection().execute("SELECT pg_stat_force_next_flush()")
            database.fetch("ping", {})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")  # it may have made the tables
        cursor.execute(
            f"SELECT relname, {FIGURES} FROM pg_stat_user_tables"
            " WHERE relname IN ('django_jobs_skip', 'django_jobs_event') ORDER BY 1"
        )
        return list(cursor.fetchall())


def recorded() -> list[tuple[str, int, str]]:
    return list(
        Skip.objects.order_by("host", "placement").values_list("host", "placement", "reason")
    )


def test_two_hosts_write_two_rows_however_often_they_pass():
    """Five hundred passes each in turn, one of them idle and at capacity all the time."""
    pk = placement(labels={"gpu"}, resources={"memory_mb": 8000})
    Job.objects.create(task="tests.tasks.ok", placement=pk)
    busy: Any = SimpleNamespace(job=SimpleNamespace(queue="default", suspect=False, placement=0))
    with (
        worker("web-1", resources={"memory_mb": 16_000}) as one,
        worker("web-2", labels={"gpu"}) as two,
    ):
        before: list[Any] = []
        for number in range(500):
            make_pass(one)
            if number % 2:
                two.capacity.held[1] = busy
            make_pass(two)
            two.capacity.held.clear()
            if number == 99:
                before = figures(one, two)
        assert before == figures(one, two)
        assert [("web-1", pk, "label"), ("web-2", pk, "resource")] == recorded()
        assert 2 == Event.objects.count()
    with worker("web-2", resources={"memory_mb": 16_000}) as two:  # the label is gone
        make_pass(two)
        assert [("web-1", pk, "label"), ("web-2", pk, "label")] == recorded()
        assert 3 == Event.objects.count()
    told = Event.objects.latest("id")
    assert ("skipped", None, pk, "web-2", "label") == (
        told.kind,
        told.job_id,
        told.placement,
        told.host,
        told.data["reason"],
    )


def hosting(name: str, **offered: Any) -> Hosting:
    return Hosting(Host(names={name}, **offered), name=name, worker=uuid4())


def test_of_racing_first_words_of_a_host_one_is_written(second_connection: Any):
    pk = placement(labels={"gpu"})
    hosts = [hosting(f"web-{number % 2}") for number in range(8)]
    with ExitStack() as stack:
        databases = [PrivateDatabase("default", purpose=f"race {n}") for n in range(8)]
        for database in databases:
            stack.callback(database.close)
            database.connection().execute("SET lock_timeout = 0")  # they shall wait
        threads = [
            Thread(target=each.refresh, args=[database])
            for each, database in zip(hosts, databases, strict=True)
        ]
        with second_connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for name in ("web-0", "web-1"):
                cursor.execute(
                    "INSERT INTO django_jobs_skip (host, placement, reason) VALUES (%s, %s, 'os')",
                    [name, pk],
                )
            for thread in threads:
                thread.start()
            wait_for(lambda: 8 == waiting(), what="eight first words wait")
            cursor.execute("ROLLBACK")
        for thread in threads:
            thread.join(10)
    assert [("web-0", pk, "label"), ("web-1", pk, "label")] == recorded()
    assert 2 == Event.objects.count()


def waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'jobworker race%' AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


@pytest.fixture
def database() -> Iterator[PrivateDatabase]:
    made = PrivateDatabase("default", purpose="test")
    yield made
    made.close()


def test_a_host_that_fits_by_now_takes_its_own_rows_back_and_no_others(database: PrivateDatabase):
    pk = placement(labels={"gpu"})
    hosting("web-1").refresh(database)
    hosting("web-2").refresh(database)
    hosting("web-1", labels={"gpu"}).refresh(database)
    assert [("web-2", pk, "label")] == recorded()


def test_the_word_of_another_worker_of_the_same_name_stands_while_it_lives(
    database: PrivateDatabase,
):
    pk = placement(labels={"gpu"})
    with desks("web-1") as [desk]:
        hosting("web-1").refresh(database)
        hosting("web-1", labels={"gpu"}).refresh(database)
        assert [("web-1", pk, "label")] == recorded()
        silence(desk, seconds=31)
        hosting("web-1", labels={"gpu"}).refresh(database)
    assert [] == recorded()


def test_what_another_worker_of_the_same_name_said_goes_once_it_has_ended(
    database: PrivateDatabase,
):
    """As in a deploy: the new process starts while the old one drains."""
    pk = placement(task="shop.tasks.new")
    with desks("web-1") as [old]:
        hosting("web-1", knows=lambda _: False).refresh(database)
        web = hosting("web-1")
        web.refresh(database)
        assert [("web-1", pk, "unknown_task")] == recorded()
        old.beat(state="stopped")
        web.refresh(database)
    assert [] == recorded()


def test_two_workers_of_one_name_do_not_overwrite_each_other_for_ever(database: PrivateDatabase):
    pk = placement(labels={"gpu"}, host="web-1")
    one, two = hosting("web-1"), Hosting(Host(names={"x"}), name="web-1", worker=uuid4())
    with desks("web-1", "web-1"):
        for _ in range(3):
            one.refresh(database)
            two.refresh(database)
    assert [("web-1", pk, "host")] == recorded()
    assert 2 == Event.objects.count()


def test_what_was_taken_away_is_written_again(database: PrivateDatabase):
    """By hand, with all rows, or because this host had been silent for a day."""
    pk = placement(labels={"gpu"})
    web = hosting("web-1")
    web.refresh(database)
    hosting("web-2").refresh(database)
    Skip.objects.filter(host="web-1").delete()
    web.refresh(database)
    web.refresh(database)
    assert [("web-1", pk, "label"), ("web-2", pk, "label")] == recorded()
    assert 3 == Event.objects.count()


def stale(web: Hosting) -> bool:
    """What may change between two looks."""
    return web.is_stale


def test_the_placements_are_read_again_after_a_time(
    database: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
):
    """Then a failed import is tried again too."""
    pk = placement(task="shop.tasks.new")
    known: list[str] = []
    host = Host(names={"web-1"}, knows=known.__contains__)
    with desks("web-1") as [desk]:  # its own row is no other worker's
        web = Hosting(host, name="web-1", worker=desk.id)
        web.refresh(database)
        assert not stale(web)
        known.append("shop.tasks.new")
        now = monotonic() + AGAIN_SECONDS + 1
        monkeypatch.setattr("django_jobs.worker.hosting.monotonic", lambda: now)
        assert stale(web)
        web.refresh(database)
    assert not stale(web)
    assert ([], [0, pk]) == (recorded(), [fit.id for fit in web.fits])


class Interrupted:
    """A database that does something before it answers ``name``."""

    def __init__(self, database: PrivateDatabase, name: str, act: Callable[[], Any]) -> None:
        self.database, self.name, self.act = database, name, act

    def fetch(self, name: str, params: Any) -> list[Row]:
        rows = self.database.fetch(name, params)
        if name == self.name:
            self.act()
        return rows


def fail() -> None:
    raise psycopg.OperationalError("the database went away")


def test_what_could_not_be_recorded_is_recorded_by_the_next_round(database: PrivateDatabase):
    pk = placement(labels={"gpu"})
    web = hosting("web-1")
    with pytest.raises(psycopg.OperationalError), database.connection().transaction():
        web.refresh(Interrupted(database, "skip", fail))  # type: ignore[arg-type]
    assert [] == recorded()
    assert stale(web)
    web.refresh(database)
    assert not stale(web)
    assert [("web-1", pk, "label")] == recorded()


def test_what_a_claim_sees_while_the_placements_are_read_has_them_read_again(
    database: PrivateDatabase,
):
    web = hosting("web-1", labels={"gpu"})
    late: list[int] = []

    def come() -> None:
        late.append(placement(labels={"gpu"}))
        web.note((1, late[0]))

    web.refresh(Interrupted(database, "placements", come))  # type: ignore[arg-type]
    assert [0] == [fit.id for fit in web.fits]
    assert stale(web)
    web.refresh(database)
    assert not stale(web)
    assert [0, *late] == [fit.id for fit in web.fits]


def test_a_worker_whose_row_was_taken_away_trusts_no_placement_that_it_read():
    """Emptied tables may number anew: then count and sum of the ids are what they were."""
    mine = placement(host="web-1")
    with worker("web-1") as made:
        make_pass(made)
        assert [0, mine] == [fit.id for fit in made.hosting.fits]
        WorkerRow.objects.all().delete()
        Placement.objects.filter(pk=mine).update(host="web-2")
        Job.objects.create(task="tests.tasks.ok", placement=mine)
        for _ in range(2):  # it learns of it, then claims
            made.loop.turn(claiming=True)
        assert not made.capacity.held
        make_pass(made)
        assert [0] == [fit.id for fit in made.hosting.fits]
        assert not made.capacity.held
    assert "ready" == Job.objects.get().state


def test_what_was_said_of_a_placement_that_is_gone_goes_too(database: PrivateDatabase):
    first, other = placement(labels={"gpu"}), placement(labels={"tpu"})
    web = hosting("web-1")
    web.refresh(database)
    Placement.objects.filter(pk=first).delete()
    web.refresh(database)
    assert [("web-1", other, "label")] == recorded()


def test_a_host_that_is_gone_for_good_takes_its_skips_with_it(database: PrivateDatabase):
    pk = placement(labels={"gpu"})
    with desks("web-1", "web-2", "web-2") as made:
        for name in ("web-1", "web-2"):
            hosting(name).refresh(database)
        silence(*made[:2], seconds=90_000)  # of web-2 one worker lives
    job_event = Event.objects.create(job_id=1, kind="failed", attempt=1, life=1)
    forget(database=HERE)
    assert [("web-2", pk, "label")] == recorded()
    assert ["web-2"] == list(Event.objects.exclude(pk=job_event.pk).values_list("host", flat=True))
    assert Event.objects.filter(pk=job_event.pk).exists()


def test_a_placement_that_a_hand_made_wrong_fits_nowhere_and_stops_nobody(
    database: PrivateDatabase,
):
    wrong = Placement.objects.create(digest="x", labels=["a b"])
    right = placement(labels={"gpu"})
    web = hosting("web-1", labels={"gpu"})
    web.refresh(database)
    assert [0, right] == [fit.id for fit in web.fits]
    assert wrong.pk not in {fit.id for fit in web.fits}


def test_a_claim_that_saw_other_placements_has_them_read_again(database: PrivateDatabase):
    web = hosting("web-1", labels={"gpu"})
    stale = [web.is_stale]
    web.refresh(database)
    stale.append(web.is_stale)
    assert not web.note((0, 0))
    pk = placement(labels={"gpu"})
    assert web.note((1, pk))
    stale.append(web.is_stale)
    web.refresh(database)
    assert [True, False, True] == stale
    assert not web.note((1, pk))
    assert [0, pk] == [fit.id for fit in web.fits]


def test_the_placement_of_an_unknown_task_asks_for_all_that_the_job_asked(
    database: PrivateDatabase,
):
    pk = placement(labels={"gpu"})
    web = hosting("web-1", labels={"gpu"}, knows=lambda _: False)
    web.refresh(database)
    moved = web.where_known(pk, "shop.tasks.new", database=database)
    assert moved is not None
    assert moved == web.where_known(pk, "shop.tasks.new", database=database)
    web.refresh(database)
    Placement.objects.filter(pk=moved).delete()  # as a test that empties every table does
    again = web.where_known(pk, "shop.tasks.new", database=database)
    assert again not in {None, moved}
    row = Placement.objects.get(pk=again or 0)
    assert (["gpu"], "shop.tasks.new") == (row.labels, row.task)
    assert None is web.where_known(12_345, "shop.tasks.new", database=database)
    web.refresh(database)
    assert [("web-1", again, "unknown_task")] == recorded()
    assert [0, pk] == [fit.id for fit in web.fits]


def ready_job(**columns: Any) -> Job:
    return Job.objects.create(**{"task": "tests.tasks.ok", **columns})


def run_out(made: Worker) -> None:
    """Claim, let what was claimed run, and settle it."""
    made.loop.turn(claiming=True)
    assert made.capacity.held
    runs = list(made.capacity.held.values())
    wait_for(lambda: all(run.outcome is not None for run in runs))
    wait_for(lambda: made.loop.turn(claiming=False) and not made.capacity.held)
    made.runs.stop()


def test_a_pass_that_sees_new_placements_has_them_read_before_it_says_that_nothing_is_there():
    """Else --once would end beside a job that it could take, and a sleeper would sleep on."""
    with worker("web-1") as made:
        make_pass(made)
        made.loop.turn(claiming=True)
        assert made.loop.found_nothing
        ready_job(args=[1], placement=placement(host="web-1"))
        expected, rung = list[float](), list[bool]()
        made.loop._expect = expected.append
        made.sweeper._found_work = lambda: rung.append(True)
        made.loop.turn(claiming=True)
        assert (False, [0.0], []) == (made.loop.found_nothing, expected, rung)
        for _ in range(2):
            made.sweeper.sweep()
        assert [True] == rung
        run_out(made)
    assert "succeeded" == Job.objects.get().state


def test_after_a_job_that_holds_resources_the_next_pass_is_at_once():
    """For a pass takes one of them."""
    pk = placement(resources={"cpus": 1})
    for number in range(2):
        ready_job(args=[number], placement=pk)
    with worker("web-1", max_in_flight=4, resources={"cpus": 4}) as made:
        make_pass(made)
        made.loop.turn(claiming=True)
        assert (1, 0.0) == (made.loop.tally.claimed, made.loop._pause)
        run_out(made)
    assert {"succeeded"} == set(Job.objects.values_list("state", flat=True))


def bells(made: Worker, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The queues of each bell that the loop rings from now."""
    fetch, rung = made.loop.database.fetch, list[list[str]]()

    def spy(name: str, params: Any) -> list[Row]:
        if name == "ring":
            rung.append(params["queues"])
        return fetch(name, params)

    monkeypatch.setattr(made.loop.database, "fetch", spy)
    return rung


def test_a_job_that_is_handed_back_rings_for_other_workers(monkeypatch: pytest.MonkeyPatch):
    ready_job(task="tests.tasks.nap", args=[0.3])
    with worker("web-1") as made:
        make_pass(made)
        sent = bells(made, monkeypatch)
        assert 1 == made.loop.hand_back_held("drain")
        made.runs.stop()
        assert made.runs.join(5)
    assert [["default"]] == sent
    assert "ready" == Job.objects.get().state


def test_a_job_that_is_moved_rings_for_those_who_know_its_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    job = ready_job(task="shop.tasks.new")
    with worker("web-1") as made:
        make_pass(made)
        sent = bells(made, monkeypatch)
        wait_for(lambda: all(run.outcome is not None for run in made.capacity.held.values()))
        wait_for(lambda: made.loop.turn(claiming=False) and not made.capacity.held)
        made.runs.stop()
    assert [["default"]] == sent
    job.refresh_from_db()
    assert ("ready", job.placement) == (job.state, Placement.objects.get().pk)
    told = f"job {job.pk} is left to workers that know its task, unknown here: shop.tasks.new"
    assert told in caplog.text


def test_a_job_that_would_move_to_where_it_is_waits_a_while():
    """What was known when the placements were read need not be known any more."""
    pk = placement(task="shop.tasks.new")
    job = ready_job(task="shop.tasks.new", placement=pk)
    with worker("web-1") as made:
        made.hosting.host = replace(made.hosting.host, knows=lambda _: True)
        make_pass(made)
        run_out(made)
    job.refresh_from_db()
    assert ("scheduled", pk, 0) == (job.state, job.placement, job.attempt)


def test_a_move_that_the_database_refuses_holds_up_no_settlement(caplog: pytest.LogCaptureFixture):
    """A trigger of the site, or a sequence at its end: the job is put off instead."""
    job = ready_job(task="shop.tasks.new")
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION no_place() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no place for it'; END $$;"
            "CREATE TRIGGER no_place BEFORE INSERT ON django_jobs_placement"
            " FOR EACH ROW EXECUTE FUNCTION no_place()"
        )
    try:
        with worker("web-1") as made:
            run_out(made)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION no_place CASCADE")
    job.refresh_from_db()
    assert ("scheduled", 0, 0) == (job.state, job.placement, job.attempt)
    assert "no place for it" in caplog.text
    assert f"job {job.pk} is put off by 30 s, its task is unknown here" in caplog.text


def test_a_host_answers_to_its_name_and_to_both_names_of_its_machine(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("socket.gethostname", lambda: "box-7.example.org")
    names = {"web-1", "box-7", "box-7.example.org"}
    placed = {placement(host=name) for name in names}
    foreign = placement(host="box-7.example")
    with worker("web-1", labels=["gpu"], resources={"cpus": 2.5}) as made:
        make_pass(made)
        assert {0, *placed} == {fit.id for fit in made.hosting.fits}
        slots = {name: made.capacity.slots(name) for name in made.options.queues}
        assert slots
    assert [("web-1", foreign, "host")] == recorded()
    row = WorkerRow.objects.get()
    assert (slots, 1) == (row.slots, row.default_slots)
    assert (names - {"web-1"}, {"cpus": 2.5}) == (set(row.aliases), row.resources)
    assert "gpu" in row.labels
    families = {label.partition(":")[0] for label in row.labels}
    assert {"gpu", "os", "arch", "python"} == families


def test_what_runs_holds_its_resources_although_its_placement_was_taken_away(
    database: PrivateDatabase,
):
    pk = placement(resources={"cpus": 3})
    web = hosting("web-1", resources={"cpus": 4})
    web.refresh(database)
    capacity = Capacity(cap=9, slots={}, default_slots=9, hosting=web)
    run: Any = SimpleNamespace(job=SimpleNamespace(lease=1, placement=pk))
    capacity.take([run])
    Placement.objects.all().delete()
    web.refresh(database)
    assert {"cpus": 1} == capacity.free()


def test_a_host_that_fits_very_many_placements_warns_once(
    database: PrivateDatabase, caplog: pytest.LogCaptureFixture
):
    web = hosting("web-1")
    rows = [Placement(digest=str(number)) for number in range(MANY)]
    Placement.objects.bulk_create(rows[:-1])
    web.refresh(database)
    assert "placements" not in caplog.text
    rows[-1].save()
    web.refresh(database)
    web.refresh(database)
    assert 1 == caplog.text.count(f"this host fits {MANY + 1} placements")
