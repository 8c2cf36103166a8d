"""``jobs health`` says by its exit status, in one line and soon, whether a worker is well."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from django_jobs.management.jobs import health
from django_jobs.models import Worker
from testproject.postgres import PrivateServer, as_url
from tests.health.knocking import HERE, Subject, alien, saying, serving
from tests.processes import JobWorkers
from tests.worlds import add, register

pytestmark = pytest.mark.django_db(transaction=True)  # it reads in a thread of its own
SECONDS = 5.0  # within which a probe has its answer
Told = tuple[int, str, str]


def jobs(*words: str) -> Told:
    """Run ``manage.py jobs`` here; return its status and what it said."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("jobs", *words, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def ago(seconds: float) -> dict[str, datetime]:
    """The columns of a worker that was last heard of so long ago."""
    then = datetime.now(UTC) - timedelta(seconds=seconds)
    return {"seen_at": then, "loop_at": then}


@contextmanager
def refused() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    yield f"{HERE}:{port}"


@contextmanager
def another() -> Iterator[str]:
    """The address of another worker, which is well."""
    with serving(Subject(name="web-2")) as server:
        yield server.address


# What may stand at the address of a worker that is gone.
WRONG: dict[str, Callable[[], Any]] = {
    "refused": refused,
    "another service": lambda: alien(saying("200 OK", '{"status":"ok"}')),
    "a list": lambda: alien(saying("200 OK", "[]")),
    "404": lambda: alien(saying("404 Not Found", "{}")),
    "401": lambda: alien(saying("401 Unauthorized", "{}")),
    "a hang": lambda: alien(bool),
    "another worker": another,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_is_a_failure_in_one_line_and_five_seconds(wrong: str):
    with WRONG[wrong]() as address:
        register(name="web-1", pid=7, health=address)
        begun = time.monotonic()
        status, out, err = jobs("health", "--worker", "web-1")
        assert time.monotonic() - begun < SECONDS
    assert (1, "", 1) == (status, out, err.count("\n"))
    assert address in err


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_process_fails_of_every_wrong_answer_without_a_traceback(jobworker: JobWorkers):
    with ExitStack() as stack:
        begun = time.monotonic()
        jobworker.command("jobs").wait()
        start = time.monotonic() - begun  # of Python and Django alone
        for number, wrong in enumerate(WRONG):
            address = stack.enter_context(WRONG[wrong]())
            register(name=f"web-{number}", pid=7, health=address)
            begun = time.monotonic()
            process = jobworker.command("jobs", "health", "--worker", f"web-{number}:7")
            assert (1, 1) == (process.wait(), process.log().count("\n")), process.log()
            assert time.monotonic() - begun < SECONDS + max(start - 1, 0)
            assert process.log().startswith("jobs: ")


@pytest.mark.parametrize("ready", [False, True])
def test_a_worker_that_answers_is_well(ready: bool):
    subject = Subject()
    with serving(subject) as server:
        add_row(subject, health=server.address)
        status, out, err = jobs("health", "--worker", "web-1", *["--ready"] * ready)
    assert (0, "") == (status, err)
    assert f"is {'ready' if ready else 'live'}: running" in out


def add_row(subject: Subject, **columns: Any) -> None:
    """Write the row of a worker whose process is this one."""
    import os

    known = {"backend": "default", "pid": os.getpid(), "version": "0", "capacity": 1}
    Worker.objects.create(id=subject.id, name=subject.name, **{**known, **columns})


def test_an_answer_counts_for_more_than_an_old_row():
    subject = Subject()
    with serving(subject) as server:  # its database is away, say
        add_row(subject, health=server.address, **ago(999))
        assert 0 == jobs("health", "--worker", "web-1")[0]


def test_ready_asks_about_the_database_and_live_does_not():
    def refuse() -> None:
        raise OSError("gone")

    subject = Subject()
    with serving(subject, send=refuse) as server:
        add_row(subject, health=server.address)
        assert 0 == jobs("health", "--worker", "web-1")[0]
        status, _, err = jobs("health", "--worker", "web-1", "--ready")
    assert (1, True) == (status, "is not well: gone." in err)


def test_a_wedged_worker_is_not_well_though_it_answers():
    subject = Subject(silent=99)
    with serving(subject) as server:
        add_row(subject, health=server.address)
        status, _, err = jobs("health", "--worker", str(subject.id))
    assert (1, True) == (status, "one turn for 99 s" in err)


# by the row


@pytest.mark.parametrize(
    ("silence", "state", "status", "word"),
    [
        (0, "running", 0, "live"),
        (0, "draining", 0, "draining"),
        (25, "running", 1, "late"),
        (35, "running", 1, "gone"),
        (0, "stopped", 1, "stopped"),
    ],
    ids=["live", "draining", "late", "gone", "stopped"],
)
def test_without_a_port_the_row_decides(silence: float, state: str, status: int, word: str):
    register(name="web-1", state=state, **ago(silence))
    got, out, err = jobs("health", "--worker", "web-1")
    assert (status, True) == (got, word in (out or err))
    assert 1 == (out + err).count("\n")


def test_a_silent_loop_is_not_well_though_the_renewer_beats():
    register(name="web-1", loop_at=ago(35)["loop_at"])
    assert 1 == jobs("health", "--worker", "web-1")[0]


def test_a_worker_that_said_goodbye_is_not_asked():
    with alien(lambda _: pytest.fail("it was asked")) as address:
        register(name="web-1", state="stopped", health=address)
        status, _, err = jobs("health", "--worker", "web-1")
    assert (1, True) == (status, "is stopped" in err)


def test_an_unknown_worker_is_not_well():
    register(name="web-1")
    status, _, err = jobs("health", "--worker", "web-9")
    assert (1, True) == (status, "No worker 'web-9' is known." in err)


# which worker


def test_a_name_a_process_and_an_id_all_name_a_worker():
    worker = register(name="web-1", pid=7)
    register(name="web-2", pid=7)
    for name in ("web-1", "web-1:7", str(worker)):
        assert 0 == jobs("health", "--worker", name)[0]
    for name in ("web-1:8", "web", "7", "web-1:", str(UUID(int=4))):
        assert 1 == jobs("health", "--worker", name)[0]


def test_a_name_with_a_colon_can_be_said_whole():
    register(name="rack:4", pid=7)
    for name in ("rack:4", "rack:4:7"):
        assert 0 == jobs("health", "--worker", name)[0]


def test_a_name_of_several_lists_them():
    both = [register(name="web-1", pid=pid) for pid in (7, 8)]
    status, _, err = jobs("health", "--worker", "web-1")
    assert (2, 1) == (status, err.count("\n"))
    assert all(str(each) in err for each in both)
    assert "web-1:7" in err
    assert 0 == jobs("health", "--worker", "web-1:8")[0]


def test_the_live_one_of_a_name_is_meant_and_not_those_before_it():
    register(name="web-1", state="stopped")
    register(name="web-1", **ago(99))
    register(name="web-1", **ago(25))
    assert 1 == jobs("health", "--worker", "web-1")[0]  # the late one
    register(name="web-1")
    assert 0 == jobs("health", "--worker", "web-1")[0]


# without a row


def test_an_address_needs_no_database(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        pytest.fail("a row was read")

    monkeypatch.setattr(health, "_rows", refuse)
    subject = Subject()
    with serving(subject) as server:
        words = ("health", "--address", server.address)
        assert 0 == jobs(*words)[0]
        assert 0 == jobs(*words, "--worker", "web-1")[0]
        assert 0 == jobs(*words, "--worker", str(subject.id))[0]
        assert 1 == jobs(*words, "--worker", "web-2")[0]
        assert 1 == jobs(*words, "--worker", "web-1:1")[0]
    assert 1 == jobs(*words)[0]


@pytest.mark.parametrize("address", ["", "web-1", "web-1:http", ":"])
def test_an_address_without_a_port_is_refused(address: str):
    assert 2 == jobs("health", "--address", address)[0]


# the database


@pytest.mark.subprocess
def test_a_database_that_is_away_is_a_failure_in_one_line(
    jobworker: JobWorkers, private_server: Callable[..., PrivateServer]
):
    server = private_server()
    url = as_url(server.conninfo("postgres"))
    server.stop("immediate")
    process = jobworker.command("jobs", "health", "--worker", "web-1", DATABASE_URL=url)
    assert (1, 1) == (process.wait(), process.log().count("\n")), process.log()
    assert "The database 'default' does not answer" in process.log()


def test_a_database_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "SECONDS", 0.2)
    monkeypatch.setattr(health, "_rows", lambda *_: time.sleep(2))
    status, _, err = jobs("health", "--worker", "web-1")
    assert (1, True) == (status, "has not answered within 0.2 s" in err)


# a queue


def waiting(queue: str, seconds: float) -> None:
    """Add a ready job that has waited so long."""
    add(queue, enqueued_at=datetime.now(UTC) - timedelta(seconds=seconds))


def test_a_queue_whose_oldest_job_waits_too_long_is_not_well():
    register(name="web-1")
    waiting("mail", 400)
    status, _, err = jobs("health", "--queue", "mail", "--max-age", "5m")
    assert (1, 1) == (status, err.count("\n"))
    assert "has waited 6m40s, longer than 5m00s" in err
    assert 0 == jobs("health", "--queue", "mail", "--max-age", "10m")[0]
    assert 0 == jobs("health", "--queue", "default", "--max-age", "0")[0]


def test_a_queue_as_json_has_raw_values():
    waiting("mail", 60)
    status, out, _ = jobs("health", "--queue", "mail", "--max-age", "1h", "--json")
    said = json.loads(out)
    assert (0, "mail", 1) == (status, said["queue"], said["ready"])
    assert 60 <= said["oldest_seconds"] < 90


# words


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--queue", "mail"],
        ["--max-age", "5m"],
        ["--max-age", "5m", "--worker", "web-1"],
        ["--queue", "mail", "--max-age", "5m", "--worker", "web-1"],
        ["--queue", "mail", "--max-age", "soon"],
        ["--wrker", "web-1"],
        ["--worker"],
    ],
    ids=str,
)
def test_words_that_say_nothing_are_refused(words: list[str], capsys: Any):
    assert 2 == jobs("health", *words)[0]
