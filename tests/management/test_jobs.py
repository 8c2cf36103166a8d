"""``manage.py jobs``: words, statuses, tables and JSON."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.db import OperationalError, connection

from django_jobs.conf import InvalidOption, Options
from django_jobs.management import frame
from django_jobs.management.frame import Call, Failed, Status, load_verb, verb_names
from django_jobs.management.jobs import workers
from django_jobs.management.output import Output, duration, lines, printable
from django_jobs.management.spans import seconds_of
from django_jobs.models import Queue
from tests.processes import ROOT
from tests.worlds import add, register


def jobs(*words: str) -> tuple[int, str, str]:
    """Run ``manage.py jobs`` here; return its status and what it said."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("jobs", *words, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(str(ended.code or 0)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


# words


def test_every_module_is_a_verb_with_help():
    assert {"explain", "health", "queues", "workers"} <= set(verb_names())
    for name in verb_names():
        verb = load_verb(name)
        assert verb.HELP.endswith(".")
        assert callable(verb.run)


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        call_command("jobs", "--help")
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in verb_names())


@pytest.mark.parametrize(
    ("word", "cure"),
    [("helth", "Did you mean 'health'?"), ("zzz", "There are: "), ("__init__", "There are: ")],
)
def test_an_unknown_verb_names_the_nearest(word: str, cure: str):
    status, out, err = jobs(word)
    assert (2, "", True) == (status, out, f"There is no verb '{word}'. {cure}" in err)


def test_no_verb_lists_them():
    status, _, err = jobs()
    assert (2, True) == (status, "health" in err)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--backend", "nope"], "TASKS has no alias 'nope'"),
        (["--database", "dfault"], "DATABASES has no alias 'dfault'. Did you mean 'default'?"),
    ],
)
def test_an_unknown_alias_is_a_usage_error(words: list[str], fault: str):
    status, _, err = jobs("workers", *words)
    assert (2, True) == (status, fault in err)


def test_an_unknown_flag_is_a_usage_error(capsys: pytest.CaptureFixture[str]):
    assert 2 == jobs("workers", "--al")[0]  # no abbreviations: a later flag may take them
    assert "--al" in capsys.readouterr().err


def test_flags_of_every_command_are_taken_after_the_verb(db: None):
    assert 0 == jobs("workers", "--settings", "tests.settings", "-v", "2")[0]


@pytest.mark.django_db
def test_another_database_can_be_named():
    assert 0 == jobs("workers", "--database", "default")[0]


# statuses


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(_: Call) -> Status:
        raise error

    monkeypatch.setattr(workers, "run", run)


def test_a_setting_that_cannot_be_used_is_a_usage_error(monkeypatch: pytest.MonkeyPatch):
    error = InvalidOption("TASKS['default']['OPTIONS']['max_in_flight']", 0, "Use 1 or more.")
    failing(monkeypatch, error)
    assert (2, "", f"jobs: {error}\n") == jobs("workers")


def test_a_database_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch):
    failing(monkeypatch, OperationalError("connection failed: no route\nmore"))
    status, _, err = jobs("workers")
    assert (1, "jobs: The database 'default' does not answer: connection failed: no route\n") == (
        status, err
    )  # fmt: skip


@pytest.mark.django_db
def test_tables_that_are_missing_name_the_command():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_jobs_worker RENAME TO elsewhere")
    status, _, err = jobs("workers")
    assert (1, True) == (status, "manage.py migrate django_jobs" in err)
    assert 1 == err.count("\n")


def test_a_failure_has_the_status_that_it_names(monkeypatch: pytest.MonkeyPatch):
    for status in Status:
        if status:
            failing(monkeypatch, Failed("No.", status))
            assert (status, "", "jobs: No.\n") == jobs("workers")


def test_the_statuses_are_what_scripts_know():
    names = ["DONE", "ERROR", "USAGE", "UNMET", "PARTLY"]
    assert [(name, number) for number, name in enumerate(names)] == [
        (each.name, each.value) for each in Status
    ]


def test_a_line_of_an_error_steers_no_terminal(monkeypatch: pytest.MonkeyPatch):
    failing(monkeypatch, Failed("bad \x1b[2J name"))
    assert "jobs: bad \\x1b[2J name\n" == jobs("workers")[2]


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    failing(monkeypatch, KeyboardInterrupt())
    assert (130, "", "") == jobs("workers")


@pytest.mark.subprocess
@pytest.mark.django_db(transaction=True)
def test_a_reader_that_has_seen_enough_is_no_failure():
    for number in range(400):
        register(name=f"web-{number:03}" + "x" * 300)
    env = {**os.environ, "DJANGO_JOBS_TEST_DATABASE": str(connection.settings_dict["NAME"])}
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} manage.py jobs workers | head -n1; echo $PIPESTATUS"],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ("", "0") == (done.stderr, done.stdout.splitlines()[-1])


# answers


@pytest.mark.django_db
def test_workers_are_listed_with_how_they_are():
    then = datetime.now(UTC) - timedelta(seconds=99)
    live = register(name="web-1", pid=7, queues=["a", "b"], health="10.0.0.7:8001")
    register(name="web-2", seen_at=then)
    register(name="web-3", state="stopped")
    status, out, _ = jobs("workers")
    assert (0, 2) == (status, out.count("\n"))
    assert ["web-1:7", "live", "0/1000"] == out.splitlines()[1].split()[:3]
    assert all(word in out for word in ("a,b", "10.0.0.7:8001", str(live)))
    every = [json.loads(line) for line in jobs("workers", "--all", "--json")[1].splitlines()]
    assert {"web-1": "live", "web-2": "gone", "web-3": "stopped"} == {
        each["name"]: each["health"] for each in every
    }


@pytest.mark.django_db
def test_no_worker_is_said_and_no_line_of_json():
    assert "manage.py jobworker" in jobs("workers")[1]
    assert (0, "", "") == jobs("workers", "--json")


@pytest.mark.django_db
def test_queues_are_listed_with_who_waits():
    add("mail", 3, enqueued_at=datetime.now(UTC) - timedelta(seconds=65))
    Queue.objects.create(
        backend="default", name="photos", paused=True, paused_by="ana", paused_reason="bad feed"
    )
    out = jobs("queues")[1]
    found = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert ["unserved", "1m05s", "3"] == found["mail"][:3]
    assert "by ana: bad feed" in out
    said = {
        each["queue"]: each
        for each in map(json.loads, jobs("queues", "--json")[1].split("\n")[:-1])
    }
    assert ("paused", "ana", 0) == tuple(
        said["photos"][key] for key in ("health", "paused_by", "ready")
    )
    assert 65 <= said["mail"]["oldest_seconds"] < 90


@pytest.mark.django_db
def test_a_job_that_nobody_will_start_is_an_unmet_condition():
    [pk] = add("mail")
    status, out, _ = jobs("explain", str(pk))
    assert (3, True) == (status, "No live worker serves the queue “mail”." in out)
    assert "next: python manage.py jobworker --queue mail" in out
    said = json.loads(jobs("explain", str(pk), "--json")[1])
    assert (pk, "queue_not_served", []) == (said["job"], said["situation"], said["hosts"])


@pytest.mark.django_db
def test_a_job_that_can_start_is_done():
    register(name="web-1", queues=["mail"], aliases=[])
    now = datetime.now(UTC)
    [pk] = add("mail", state="succeeded", started_at=now, finished_at=now)
    assert 0 == jobs("explain", str(pk))[0]
    status, out, _ = jobs("explain", "--queue", "mail")
    assert (0, True) == (status, "web-1:1" in out)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("word", "status"), [("x", 2), ("0", 2), ("9" * 30, 2), ("-1", 2), ("7", 1)]
)
def test_an_id_of_no_job_is_told(word: str, status: int, capsys: pytest.CaptureFixture[str]):
    assert status == jobs("explain", word)[0]


# tables


class Terminal(io.StringIO):
    """A stream that people read."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def shown(rows: list[list[object]], *, width: int | None) -> list[str]:
    return lines(["NAME", "N"], rows, width=width)


def test_a_table_is_cut_to_its_terminal_and_not_in_a_pipe():
    rows: list[list[object]] = [["x" * 50, 7], ["y", None]]
    assert ["NAME" + " " * 48 + "N", "x" * 50 + "  7", "y" + " " * 51 + "-"] == shown(
        rows, width=None
    )
    cut = shown(rows, width=20)
    assert "x" * 16 + "…  7" == cut[1]
    assert 20 == max(map(len, cut))


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "30")
    for stream, longest in ((Terminal(), 31), (io.StringIO(), 101)):
        out = Output(OutputWrapper(stream), json=False)
        out.show([{"name": "x" * 100}], {"NAME": lambda each: each["name"]}, none="")
        assert longest == max(len(line) + 1 for line in stream.getvalue().splitlines())


def test_wide_characters_take_two_places():
    assert ["NAME  N", "日本  1", "ab    2"] == shown([["日本", 1], ["ab", 2]], width=None)


def test_what_a_job_names_steers_no_terminal():
    assert "\\x1b[2Jx\\n" == printable("\x1b[2Jx\n")
    assert "日本 ü" == printable("日本 ü")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0.0s"), (0.44, "0.4s"), (842, "14m02s"), (11_100, "3h05m"), (2e5, "2d7h")],
)  # fmt: skip
def test_a_duration_is_short(seconds: float, words: str):
    assert words == duration(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("2w", 1_209_600)],
)
def test_a_span_is_read(text: str, seconds: float):
    assert seconds == seconds_of(text, flag="--max-age")


@pytest.mark.parametrize("text", ["", "m", "5x", "-5m", "5 m", "1e9", "nan", "5m!", "999999999w"])
def test_what_is_no_span_is_refused(text: str):
    with pytest.raises(Failed, match="--max-age is") as caught:
        seconds_of(text, flag="--max-age")
    assert Status.USAGE == caught.value.status


# acts


def call(answer: Callable[[str], str], *, terminal: bool = True, **given: Any) -> Call:
    said = Namespace(**{"yes": False, "as_name": None, **given})
    out = Output(OutputWrapper(io.StringIO()), json=False)
    return Call(said, out, "default", "default", answer, lambda: terminal)


def test_an_act_is_of_the_user_of_the_system_or_of_whom_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    assert ("ana", "cli", None) == tuple(
        getattr(call(str).actor, name) for name in ("name", "via", "id")
    )
    assert "ben" == call(str, as_name="ben").actor.name


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch):
    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert f"uid {os.getuid()}" == frame.os_user()


def test_what_destroys_goes_on_only_after_the_right_word():
    call(lambda _: " 88140 ").confirm("Purge?", typed="88140")
    call(lambda _: pytest.fail("it asked"), yes=True).confirm("Purge?", typed="88140")
    with pytest.raises(Failed, match=r"Nothing was changed\."):
        call(lambda _: "y").confirm("Purge?", typed="88140")


def test_where_nobody_can_be_asked_yes_is_needed():
    with pytest.raises(Failed, match="--yes") as caught:
        call(lambda _: pytest.fail("it asked"), terminal=False).confirm("Purge?", typed="1")
    assert Status.USAGE == caught.value.status


def test_an_end_of_input_is_no_yes():
    def ended(_: str) -> str:
        raise EOFError

    with pytest.raises(Failed, match=r"Nothing was changed\."):
        call(ended).confirm("Purge?", typed="1")


def test_a_call_knows_its_settings():
    assert isinstance(call(str).options, Options)
