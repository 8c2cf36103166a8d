"""``manage.py jobs purge``: what is old, and only that; counted, recorded, and stopped at will."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from io import StringIO
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now

from django_jobs.management.frame import Call, Failed, Status, parser_of
from django_jobs.management.jobs import purge as verb
from django_jobs.management.output import Output
from django_jobs.models import Activity, Dependency, Event, Job
from django_jobs.operations import purge_matching
from django_jobs.operations.act import answers
from django_jobs.states import FINAL, LIVE
from tests.operations.ended import ended, live
from tests.operations.test_purge_old import DAY, left
from tests.processes import ROOT, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

OLD: Any = Now() - 31 * DAY
DEAD = ("--state", "dead", "--older-than", "30d")


class Said(NamedTuple):
    """How a call ended."""

    status: int
    out: str
    err: str

    @property
    def record(self) -> Any:
        """The one JSON object."""
        return json.loads(self.out)


def jobs(*words: str) -> Said:
    out, err = StringIO(), StringIO()
    try:
        call_command("jobs", "purge", *words, stdout=out, stderr=err)
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    return Said(status, out.getvalue(), err.getvalue())


def test_old_jobs_go_with_their_events_and_the_act_is_recorded() -> None:
    old, [young] = ended(3, finished_at=OLD), ended(finished_at=Now() - 29 * DAY)
    said = jobs(*DEAD, "--yes", "--reason", "audited", "--as", "ana")
    assert (0, "3 purged.\n", "") == said
    assert ([young], [young]) == (left(), list(Event.objects.values_list("job_id", flat=True)))
    assert old
    act = Activity.objects.get()
    assert ("ana", "cli", "purge", 3, "audited") == (
        act.actor_name, act.via, act.verb, act.count, act.reason,
    )  # fmt: skip
    assert act.scope.startswith("dead jobs of default that ended before 20")


def test_a_dry_run_counts_and_changes_nothing() -> None:
    ended(3, finished_at=OLD)
    ended(2, finished_at=Now())
    said = jobs(*DEAD, "--dry-run")
    assert 0 == said.status
    assert said.out.startswith("3 dead jobs of default that ended before 20")
    assert 5 == len(left())
    record = jobs(*DEAD, "--dry-run", "--json").record
    assert (3, True, None) == (record["matching"], record["dry_run"], record["queue"])
    assert record["oldest"] == record["newest"] is not None
    assert not Activity.objects.exists()


@pytest.mark.parametrize("state", sorted(FINAL))
def test_only_the_state_that_is_named_goes(state: str) -> None:
    others = [pk for other in sorted(FINAL - {state}) for pk in ended(1, other, finished_at=OLD)]
    ended(1, state, finished_at=OLD)
    jobs("--state", state, "--older-than", "30d", "--yes")
    assert others == left()


def test_filters_narrow_what_is_counted_and_what_goes() -> None:
    [other_queue] = ended(queue="mail", task="a.b", finished_at=OLD)
    [other_task] = ended(queue="default", task="c.d", finished_at=OLD)
    [other_alias] = ended(queue="default", task="a.b", finished_at=OLD, backend="other")
    ended(2, queue="default", task="a.b", finished_at=OLD)
    words = (*DEAD, "--queue", "default", "--task", "a.b")
    assert 2 == jobs(*words, "--dry-run", "--json").record["matching"]
    assert 2 == jobs(*words, "--yes", "--json").record["purged"]
    assert [other_queue, other_task, other_alias] == left()
    assert Activity.objects.get().scope.endswith(", queue default, task a.b")


@pytest.mark.parametrize("state", [*sorted(LIVE), "done"])
def test_a_live_state_is_no_choice(state: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert 2 == jobs("--state", state, "--older-than", "30d", "--yes").status
    assert "choose from" in capfd.readouterr().err


def test_the_operation_refuses_a_live_state_too() -> None:
    live("ready")
    which = purge_matching.Which(
        state="ready", before=purge_matching.long_ago(0, database="default"), backend="default"
    )
    with pytest.raises(ValueError, match="A ready job is live"):
        next(purge_matching.purge_matching(which, actor=verb_actor(), database="default"))


def verb_actor() -> Any:
    from django_jobs.operations.act import Actor

    return Actor(name="ana", via="cli")


@pytest.mark.parametrize(
    ("text", "goes"),
    [("43200s", True), ("12h", True), ("0s", True), ("2d", False), ("1d1h", False)],
)
def test_an_age_is_a_span_of_time(text: str, *, goes: bool) -> None:
    ended(finished_at=Now() - DAY)
    assert goes == jobs(
        "--state", "dead", f"--older-than={text}", "--dry-run", "--json"
    ).record["matching"]  # fmt: skip


@pytest.mark.parametrize("text", ["30", "d", "-1d", "30 d", "40000d", "٣d", "", "1.5", "٣"])
def test_what_is_no_age_is_a_wrong_word(text: str) -> None:
    """A number alone, too: who writes 30 may mean days."""
    ended(finished_at="2000-01-01T00:00Z")
    said = jobs("--state", "dead", f"--older-than={text}", "--yes")
    assert (2, 1) == (said.status, len(left()))
    assert "--older-than is" in said.err


@pytest.mark.parametrize("words", [("--state", "dead"), ("--older-than", "30d")])
def test_state_and_age_must_be_said(words: tuple[str, ...]) -> None:
    assert 2 == jobs(*words, "--yes").status


def test_nobody_to_ask_means_that_yes_must_be_said() -> None:
    ended(finished_at=OLD)
    said = jobs(*DEAD)
    assert (2, 1) == (said.status, len(left()))
    assert "--yes" in said.err


@pytest.mark.parametrize(("answer", "gone"), [("3", 3), ("yes", 0), ("", 0)])
def test_a_person_types_the_count(answer: str, gone: int) -> None:
    ended(3, finished_at=OLD)
    given = parser_of("purge", verb).parse_args(DEAD)
    call = Call(
        given, Output(OutputWrapper(StringIO()), json=False), backend="default",
        database="default", ask=lambda _: answer, is_at_terminal=lambda: True,
    )  # fmt: skip
    with nullcontext() if gone else pytest.raises(Failed, match="Nothing was changed"):
        assert Status.DONE == verb.run(call)
    assert 3 - gone == len(left())


def test_nothing_to_purge_is_no_question_and_no_record() -> None:
    ended(finished_at=Now())
    said = jobs(*DEAD)
    assert 0 == said.status
    assert said.out.startswith("There is none: dead jobs of default")
    assert (0, "0 purged.\n", "") == jobs(*DEAD, "--yes")
    assert not Activity.objects.exists()


def test_what_must_stay_is_told_and_the_status_says_so(
    second_connection: BaseDatabaseWrapper,
) -> None:
    parent, held, _free = ended(3, finished_at=OLD)
    child = live("waiting")
    Dependency.objects.create(parent=parent, child=child)
    second_connection.set_autocommit(False)
    with second_connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_jobs_job WHERE id = %s FOR UPDATE", [held])
        said = jobs(*DEAD, "--yes")
    assert (4, "1 purged.\n2 left alone: 1 live children, 1 locked.\n", "") == said
    second_connection.rollback()
    assert [parent, held, child] == left()
    assert 0 == jobs(*DEAD, "--yes", "--json").record["refused"].get("locked", 0)
    assert 1 == jobs(*DEAD, "--yes").status  # only the parent is left


def test_more_than_a_batch_of_one_moment_that_must_stay_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(purge_matching, "BATCH", 3)
    parents = ended(7, finished_at="2020-01-01T00:00Z")
    child = live("waiting")
    Dependency.objects.bulk_create(Dependency(parent=pk, child=child) for pk in parents)
    ended(4, finished_at=OLD)
    record = jobs(*DEAD, "--yes", "--json").record
    assert (4, {"live children": 7}) == (record["purged"], record["refused"])
    assert [*parents, child] == left()


def test_batches_are_one_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge_matching, "BATCH", 4)
    ended(10, finished_at=OLD)
    record = jobs(*DEAD, "--yes", "--json").record
    act = Activity.objects.get()
    assert (10, 10, act.pk) == (record["purged"], act.count, record["activity"])
    assert [] == left()


def test_a_job_that_ends_while_it_goes_on_is_not_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not when it would be old enough by now."""
    monkeypatch.setattr(purge_matching, "BATCH", 1)
    ended(2, finished_at=OLD)
    which = purge_matching.Which(
        state="dead", before=purge_matching.long_ago(0, database="default"), backend="default"
    )
    steps = purge_matching.purge_matching(which, actor=verb_actor(), database="default")
    assert 1 == next(steps).count
    [late] = ended(finished_at=Now())
    assert 2 == [*steps][-1].count
    assert [late] == left()


def test_an_interrupt_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the commit and before the answer has been counted."""
    monkeypatch.setattr(purge_matching, "BATCH", 2)
    ended(6, finished_at=OLD)
    usual = signal.getsignal(signal.SIGINT)
    batches = Counter[str]()

    def interrupted(rows: Any) -> Any:
        batches["begun"] += 1
        if batches["begun"] == 2:
            signal.raise_signal(signal.SIGINT)
        return answers(rows)

    monkeypatch.setattr(purge_matching, "answers", interrupted)
    said = jobs(*DEAD, "--yes")
    assert (130, "4 purged: stopped, the rest is as it was.\n") == said[:2]
    assert (2, 4) == (len(left()), Activity.objects.get().count)
    assert usual == signal.getsignal(signal.SIGINT)


def test_a_second_interrupt_does_not_wait_for_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge_matching, "BATCH", 2)
    ended(6, finished_at=OLD)

    def interrupted_twice(*_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(purge_matching, "fetch_purge", interrupted_twice)
    said = jobs(*DEAD, "--yes")
    assert (130, "0 purged, or a batch more: stopped in the middle of it.\n") == said[:2]
    assert 6 == len(left())


def test_in_another_thread_signals_are_left_alone() -> None:
    ended(2, finished_at=OLD)
    usual = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as threads:
        said = threads.submit(_in_a_thread).result(20)
    assert ((0, "2 purged.\n"), usual) == (said[:2], signal.getsignal(signal.SIGINT))


def _in_a_thread() -> Said:
    try:
        return jobs(*DEAD, "--yes")
    finally:
        connections.close_all()


@pytest.mark.slow
@pytest.mark.subprocess
def test_ctrl_c_ends_a_real_one_between_two_batches() -> None:
    ended(5000, finished_at=OLD)
    with connection.cursor() as cursor:
        cursor.execute("""
            CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(0.0005); RETURN OLD; END $$;
            CREATE TRIGGER slowly BEFORE DELETE ON django_jobs_job FOR EACH ROW
                EXECUTE FUNCTION slowly();
        """)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", RUN.format(name=connection.settings_dict["NAME"])],
            cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            wait_for(lambda: Job.objects.count() < 5000, what="Nothing is purged.")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION slowly CASCADE")
    gone = 5000 - len(left())
    assert 0 < gone < 5000
    assert (130, f"{gone} purged: stopped, the rest is as it was.\n") == (process.returncode, out)
    assert "Traceback" not in err
    assert gone == Activity.objects.get().count
    assert 5000 - gone == Event.objects.count()


RUN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
import django
django.setup()
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.db import connection
connection.settings_dict["NAME"] = {name!r}
call_command("jobs", "purge", "--state", "dead", "--older-than", "30d", "--yes")
"""


def test_progress_is_told_while_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(purge_matching, "BATCH", 2)
    monkeypatch.setattr(verb, "SAY_EVERY", 0.0)
    ended(4, finished_at=OLD)
    assert 4 == jobs(*DEAD, "--yes", "--json").record["purged"]
    assert capfd.readouterr().err.startswith("2 purged, up to 20")
