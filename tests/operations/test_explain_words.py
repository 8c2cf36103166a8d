"""What stands under the sentence is true, and rows that a hand made wrong hide nothing."""

from __future__ import annotations

import shlex
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from django_jobs.models import Placement, Queue, Skip, Worker
from django_jobs.operations.explain import explain_queue, hosts, live
from django_jobs.operations.explain.explanation import Situation
from django_jobs.placement import Reason
from tests.aliases import put_options
from tests.operations.test_explain import (
    DUE,
    ago,
    detail,
    held,
    lapsed,
    lines,
    one,
    pause,
    paused,
    placed,
    told,
    unheld,
    worker,
)

pytestmark = pytest.mark.django_db


def write(table: str, column: str, value: str) -> None:
    """Write what no model would."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE django_jobs_{table} SET {column} = %s", [value])


# what stands under the sentence


def test_under_an_unserved_queue_stand_the_queues_that_are_served():
    job = one()
    assert "No worker is live." == told(job).verdict.more
    worker("a", queues=["imports", "emails"])
    assert "1 live worker serves emails, imports." == told(job).verdict.more
    worker("b", queues=["default", "emails"])
    assert "2 live workers serve default, emails, imports." == told(job).verdict.more
    assert "serves default, emails" == lines(told(job))["b:1"].detail


def test_a_worker_without_a_queue_serves_none():
    worker("run_jobs", queues=[])
    assert "1 live worker serves no queue." == told(one()).verdict.more
    assert "serves no queue" == told(one()).hosts[0].detail


def test_of_many_queues_a_few_are_named():
    worker(queues=[f"q{number}" for number in range(7)])
    assert "1 live worker serves q0, q1, q2, q3, q4 and 2 more." == told(one()).verdict.more


def test_a_silent_worker_of_the_queue_is_named_under_it():
    worker(seen_at=ago(60))
    worker("other", queues=["other"])
    assert "web:1: gone." == told(one()).verdict.more


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ({}, "Paused. It ends when somebody resumes it."),
        (
            {"paused_at": "2026-01-01T10:00:00Z"},
            "Paused 2026-01-01 10:00:00 UTC. It ends when somebody resumes it.",
        ),
        (
            {"paused_at": "2026-01-01T10:00:00Z", "paused_until": "2999-01-01T12:00:00Z"},
            f"Paused 2026-01-01 10:00:00 UTC. It ends at {DUE}.",
        ),
    ],
)
def test_under_a_pause_stands_since_when_and_until(columns, more):
    job = paused()
    Queue.objects.update(**columns)
    assert more == told(job).verdict.more


def test_under_a_job_that_nobody_fits_stands_what_each_lacks():
    worker("a", labels=["ssd"])
    worker("b", labels=["gpu"], queues=["other"])
    assert "a:1: label gpu." == told(one(placement=placed(labels={"gpu"}))).verdict.more


def test_under_a_full_fleet_stands_what_is_taken():
    held(worker(capacity=2, slots={"mail": 1}))
    assert "web:1: all slots of the queue are taken." == told(one()).verdict.more
    worker("free")
    assert told(one()).verdict.more is None


@pytest.mark.parametrize(
    ("silence", "each"),
    [(0, "all places are taken, all slots of the queue are taken"), (60, "gone")],
)
def test_of_many_hosts_it_is_said_how_many_more_there_are(silence, each):
    for number in range(7):
        worker(f"web-{number}", capacity=0, seen_at=ago(silence))
    more = str(told(one()).verdict.more)
    assert 5 == more.count(f": {each}")
    assert more.endswith(" and 2 more.")


def test_of_many_misfits_it_is_said_how_many_more_there_are():
    for number in range(7):
        worker(f"web-{number}")
    more = str(told(one(placement=placed(labels={"gpu"}))).verdict.more)
    assert (5, True) == (more.count(": label gpu"), more.endswith(" and 2 more."))


def test_a_queue_without_slots_says_that_no_worker_helps():
    worker()
    Queue.objects.create(name="mail", slots=0)
    said = "An operator gave the queue no slots: no worker takes a job of it."
    assert said == told(one()).verdict.more
    assert said == explain_queue("default", "mail", database="default").verdict.more


def test_nothing_stands_under_what_needs_nothing():
    worker()
    assert told(one()).verdict.more is None
    job = one(state="scheduled", run_after="2999-01-01T12:00:00Z")
    assert told(job).verdict.more is None
    pause()
    assert told(job).verdict.more is None
    assert "Even then it would wait: The queue “mail” is paused" in str(told(job).verdict.then)


def test_a_host_that_only_wrote_something_down_is_not_said_to_serve_the_queue():
    placement = placed(labels={"gpu"})
    Skip.objects.create(host="away", placement=placement, reason="label")
    assert "No worker is live." == told(one(placement=placement)).verdict.more


@pytest.mark.parametrize(("ahead", "word"), [(2, "2 jobs"), (3, "more than 2 jobs")])
def test_so_many_as_are_counted_are_not_more(monkeypatch, ahead, word):
    monkeypatch.setattr(live, "COUNTED", 2)
    for _ in range(ahead):
        one()
    assert f"{word} that ask the same are ahead" == detail(told(one()), "position")


# who is lost


def test_a_healthy_worker_is_not_called_lost_for_a_job_that_nobody_holds():
    job = unheld()
    worker("healthy")
    verdict = told(job).verdict
    assert "Its worker (no lease names it) seems to be lost." == verdict.sentence
    assert "There is no lease that could lapse, so no worker takes the job back." == verdict.then


def test_the_lost_worker_is_the_one_of_the_lease():
    assert "Its worker web:1 seems to be lost." == told(lapsed()).verdict.sentence


# the command


@pytest.mark.parametrize("queue", ["x; rm -rf ~", "it's", "$(reboot)", "`id`", "-rf", "--help"])
def test_the_command_is_safe_to_paste(queue):
    command = told(one(queue)).verdict.command
    words = shlex.split(str(command))[3:]
    assert (["--queue", queue] if queue[0] != "-" else [f"--queue={queue}"]) == words


@pytest.mark.parametrize("queue", ["a\nb", "\x1b[201~\x15id", "\u202egnp", "a\tb"])
def test_what_a_terminal_obeys_is_in_no_command(queue):
    assert told(one(queue)).verdict.command is None
    assert told(one(backend=queue)).verdict.command is None


def test_a_host_is_never_taken_for_a_flag():
    command = told(one(placement=placed(host="--help"))).verdict.command
    assert "python manage.py jobworker --queue mail --name=--help" == command


# more workers and skips than are looked at


def test_workers_of_the_queue_are_looked_at_before_those_of_others(monkeypatch):
    monkeypatch.setattr(hosts, "MOST", 2)
    worker("mine", seen_at=ago(3))
    for number in range(3):
        worker(f"web-{number}", queues=["other"])
    verdict = told(one()).verdict
    assert "Ready: mine:1 has room for it." == verdict.sentence
    worker("all", queues=None)
    assert ["all", "mine"] == sorted(line.host for line in told(one()).hosts)


def test_the_dead_of_a_queue_do_not_crowd_out_the_living_of_others(monkeypatch):
    monkeypatch.setattr(hosts, "MOST", 2)
    for _ in range(3):
        worker("crashed", seen_at=ago(4000))
    worker("other", queues=["other"])
    assert "1 live worker serves other." == told(one()).verdict.more


def test_what_a_host_with_a_worker_wrote_down_is_read_first(monkeypatch):
    monkeypatch.setattr(hosts, "MOST", 2)
    placement = placed(task="shop.tasks.new")
    for host in ("a", "b", "c", "web"):
        Skip.objects.create(host=host, placement=placement, reason="unknown_task")
    worker("web")
    assert Situation.UNKNOWN_TASK == told(one(placement=placement)).verdict.situation


def test_a_host_that_works_for_another_backend_is_not_called_gone():
    placement = placed(labels={"gpu"})
    Worker.objects.create(
        id=uuid4(), backend="other", name="busy", pid=1, version="1", capacity=1, default_slots=8
    )
    for host in ("busy", "away"):
        Skip.objects.create(host=host, placement=placement, reason="label", detail="gpu")
    assert ["away"] == [line.host for line in told(one(placement=placement)).hosts]
    worker("busy")
    assert ["busy", "away"] == [line.host for line in told(one(placement=placement)).hosts]


# rows that a hand made wrong


@pytest.mark.parametrize("value", ["[]", "null", "7", '"x"', '{"cpus": "many"}', '{"cpus": -1}'])
def test_resources_that_are_no_amounts_hide_nothing(value):
    asked: Any = {"cpus": 1}
    placement = placed(resources=asked)
    mine = worker(resources=asked)
    held(mine, placement=placement)
    job = one(placement=placement)
    assert Reason.AT_CAPACITY == told(job).hosts[0].reason
    write("worker", "resources", value)
    assert Reason.RESOURCE == told(job).hosts[0].reason
    write("placement", "resources", value)
    assert told(one()).hosts[0].reason is None


def test_a_placement_that_is_no_json_is_held_as_nothing():
    mine = worker()
    placement = Placement.objects.create(digest="0").pk
    held(mine, placement=placement)
    write("placement", "resources", "{")
    assert told(one()).hosts[0].reason is None


@pytest.mark.parametrize("value", ["[]", "null", '{"mail": "many"}', '{"mail": null}'])
def test_slots_that_are_no_numbers_are_the_default(value):
    mine = worker(default_slots=1)
    write("worker", "slots", value)
    assert told(one()).hosts[0].reason is None
    held(mine)
    assert "all slots of the queue are taken" == told(one()).hosts[0].detail


def test_names_that_are_null_hide_nothing():
    worker()
    write("worker", "queues", "{NULL,mail}")
    write("worker", "labels", "{NULL}")
    write("worker", "aliases", "{NULL}")
    job = one(placement=placed(labels={"gpu"}))
    assert Reason.LABEL == told(job).hosts[0].reason
    assert "serves None, mail" == told(one("other")).hosts[0].detail


# advice that helps when it is followed


def test_a_label_of_the_machine_is_said_for_no_flag_gives_it():
    """The line alone would start a worker that does not fit either."""
    worker("a", labels=["os:linux"])
    found = told(one(placement=placed(labels={"gpu", "os:darwin"}))).verdict
    assert "python manage.py jobworker --queue mail --label gpu" == found.command
    assert "a:1: os os:darwin. Start the worker on a machine that is os:darwin." == found.more


def test_an_unknown_task_asks_for_a_deploy():
    pk = placed("shop.tasks.new")
    worker("a")
    Skip.objects.create(host="a", placement=pk, reason=Reason.UNKNOWN_TASK)
    found = told(one(placement=pk)).verdict
    assert Situation.UNKNOWN_TASK == found.situation
    assert "Deploy the code that has it, then restart a worker or start another one." == found.more


def test_what_one_command_cures_does_not_wait_for_something_else_then():
    worker("a", queues=["other"])
    found = told(one(placement=placed(labels={"gpu"}))).verdict
    assert "python manage.py jobworker --queue mail --label gpu" == found.command
    assert (Situation.QUEUE_NOT_SERVED, None) == (found.situation, found.then)


def test_a_host_whose_workers_were_stopped_is_not_gone():
    pk = placed(labels={"gpu"})
    worker("a", state="stopped")
    worker("b")
    for host in ("a", "b", "c"):
        Skip.objects.create(host=host, placement=pk, reason=Reason.LABEL)
    assert ["b", "c"] == sorted(line.host for line in told(one(placement=pk)).hosts)


def test_a_queue_is_judged_for_what_the_settings_say_its_jobs_require(settings: Any):
    """Else its page would say that it is well while none of its jobs can run."""
    asked = {"requires": {"labels": {"gpu"}}}
    put_options(settings, {"queues": {"mail": asked}}, QUEUES=["mail"])
    worker("a")
    found = explain_queue("default", "mail", database="default")
    assert Situation.NO_WORKER_FITS == found.verdict.situation
    assert "python manage.py jobworker --queue mail --label gpu" == found.verdict.command
    assert [Reason.LABEL] == [line.reason for line in found.hosts]
    worker("b", labels=["gpu"])
    found = explain_queue("default", "mail", database="default")
    assert Situation.READY == found.verdict.situation


def test_resources_that_a_host_never_had_are_not_in_use():
    worker("a")
    [line] = told(one(placement=placed(resources={"cpus": 2}))).hosts
    assert [(Reason.RESOURCE, "cpus 0 of 2")] == list(line.said)
