"""What a task says of its runs: how long, where, with how much, and in which transaction."""

from __future__ import annotations

import copy
import os
import pickle
from dataclasses import replace
from datetime import timedelta
from enum import IntEnum
from math import inf
from typing import Any

import django
import pytest

from django_jobs import chain, group, task
from django_jobs.compat import InvalidTask, Task, django_task
from django_jobs.models import Job
from django_jobs.operations.requeue import requeue
from django_jobs.tasks import row_of
from django_jobs.tasks.kept import Kept
from django_jobs.testing import run_jobs
from tests.aliases import database_time, only_job, put_backends, put_options
from tests.operations.ended import ANA
from tests.sample_tasks import add, later, plain, process_id, send, undecorated

in_transaction = pytest.mark.django_db
declare: Any = task
MINUTE = timedelta(minutes=1)


class Size(IntEnum):
    """Numbers with names."""

    LONG = 60


# The value that stands for nothing


def test_a_timeout_that_is_not_given_is_the_same_in_every_copy():
    assert Kept.KEPT is copy.deepcopy(Kept.KEPT) is pickle.loads(pickle.dumps(Kept.KEPT))
    for made in (copy.deepcopy(add), copy.copy(add), replace(add, priority=0), add.using()):
        assert Kept.KEPT is made.timeout
        assert (add, hash(add)) == (made, hash(made))
    assert "timeout=…" in repr(add)
    if django.VERSION >= (6, 1):
        assert Kept.KEPT is pickle.loads(pickle.dumps(add)).timeout


def test_a_timeout_is_part_of_a_tasks_value():
    one = add.using(timeout=30)
    assert one != add != add.using(timeout=None) != one
    assert 1 == len({one, add.using(timeout=30), copy.deepcopy(one), one.using()})
    if django.VERSION >= (6, 1):
        assert one == pickle.loads(pickle.dumps(one))


# Declaration, and other values


def test_only_a_plain_function_can_be_atomic():
    assert declare(atomic=True)(undecorated).atomic
    with pytest.raises(InvalidTask, match="later: atomic=True needs a plain function"):
        declare(later.func, atomic=True)


def test_a_process_may_have_a_limit_of_memory():
    for most in (1, 500, 1024 * 1024):
        assert most == declare(undecorated, isolation="process", memory_mb=most).memory_mb


def test_using_tells_another_timeout_from_none_at_all():
    one = declare(undecorated, timeout=30)
    assert (30, 30) == (one.using(priority=3).timeout, one.using(timeout=Kept.KEPT).timeout)
    assert (None, MINUTE) == (one.using(timeout=None).timeout, one.using(timeout=MINUTE).timeout)
    assert None is one.using(timeout=None).using(priority=3).timeout
    with pytest.raises(InvalidTask, match=r"add: timeout='1' must be a timedelta or seconds"):
        add.using(timeout="1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("time_limit", "'time_limit'. Did you mean 'timeout'?"),
        ("atomic", "'atomic'. Say it where the task is declared: @task(atomic=…)."),
        ("isolation", "'isolation'. Say it where the task is declared: @task(isolation=…)."),
        ("memory_mb", "'memory_mb'. Say it where the task is declared: @task(memory_mb=…)."),
        ("retries", "'retries'. Say it where the task is declared: @task(max_attempts=…)."),
        ("run_in", "'run_in'."),
        ("xyz", "'xyz'."),
    ],
)
def test_an_option_that_is_not_of_the_call_is_told_its_place(name, words):
    with pytest.raises(TypeError) as refused:
        add.using(**{name: 1})  # type: ignore[arg-type]
    assert f"using() has no option {words}" == str(refused.value)


def test_djangos_own_decorator_passes_them_on_where_it_can():
    options: Any = {"timeout": 30, "atomic": True, "isolation": "process", "memory_mb": 500}
    own: Any = django_task
    if django.VERSION[:2] == (6, 0):
        with pytest.raises(TypeError):
            own(**options)
    else:
        made = own(**options)(undecorated)
        assert options == {name: getattr(made, name) for name in options}


@pytest.mark.parametrize("backend", ["dummy", "immediate"])
def test_djangos_backends_pass_over_them(settings, backend):
    put_backends(settings)
    made = declare(
        add.func, backend=backend, timeout=0.1, atomic=True, isolation="process", memory_mb=1
    )
    for one in (made, made.using(timeout=None)):
        result = one.enqueue("", b="x")
        assert one.timeout == result.task.timeout
        if backend == "immediate":
            assert "x" == result.return_value


# What the row keeps

TIMEOUTS: list[tuple[Any, float | None]] = [
    (add, None),
    (plain, None),
    (add.using(timeout=None), inf),
    (add.using(timeout=30), 30.0),
    (add.using(timeout=0.5), 0.5),
    (add.using(timeout=MINUTE), 60.0),
    (add.using(timeout=Size.LONG), 60.0),
    (declare(add.func, timeout=30).using(timeout=None), inf),
    (declare(add.func, timeout=None).using(timeout=30), 30.0),
]


@in_transaction
@pytest.mark.parametrize(("made", "kept"), TIMEOUTS, ids=range(len(TIMEOUTS)))
def test_the_row_keeps_the_seconds_of_a_timeout(settings, made, kept):
    put_options(settings, {"timeout_seconds": 7})  # of the worker, when it runs the job
    found = row_of(made, put_options(settings, {}))["timeout"]
    assert (type(kept), kept) == (type(found), found)
    made.enqueue(a=1)
    assert kept == only_job().timeout


@in_transaction
def test_a_task_of_another_class_leaves_its_timeout_to_the_worker(settings):
    other: Any = Task(
        func=undecorated, priority=0, backend="default", queue_name="mail", run_after=None
    )
    assert None is row_of(other, put_options(settings, {}, QUEUES=["mail"]))["timeout"]


@in_transaction
def test_a_job_with_a_key_or_a_parent_keeps_its_timeout():
    parent = add.enqueue(1)
    add.using(timeout=3, unique="a").enqueue(1)
    add.using(timeout=None, depends_on=[parent]).enqueue(1)
    assert [None, 3.0, inf] == timeouts()


@in_transaction
@pytest.mark.parametrize("made", [add, add.using(unique="{a}")], ids=["bare", "unique"])
def test_enqueue_many_keeps_each_timeout(made):
    given = [made, made.using(timeout=None), made.using(timeout=MINUTE), made.using(timeout=1)]
    made.enqueue_many(one.s(number) for number, one in enumerate(given))
    assert [None, inf, 60.0, 1.0] == timeouts()
    Job.objects.all().delete()
    made.enqueue_many([made.s(1), made.s(2)])  # nothing but nulls
    assert [None, None] == timeouts()


@in_transaction
def test_a_requeue_keeps_the_timeout():
    for one in (send, send.using(timeout=None), send.using(timeout=3)):
        one.enqueue(1, customer=2)
    Job.objects.update(state="dead", finished_at=database_time())
    ids = list(Job.objects.values_list("pk", flat=True))
    done = requeue(ids, actor=ANA, database="default")
    assert 3 == done.count
    assert [None, inf, 3.0] == timeouts()
    assert {"ready"} == set(Job.objects.values_list("state", flat=True))


@in_transaction
def test_the_steps_of_a_flow_keep_their_timeouts():
    chain(add.using(timeout=3).s(1), group([add.using(timeout=None).s(1), add.s(1)])).enqueue()
    assert [3.0, inf, None] == timeouts()


@in_transaction
def test_run_jobs_runs_them_here_and_ends_none():
    result = process_id.enqueue(0.15)
    run_jobs()
    result.refresh()
    assert ("succeeded", os.getpid()) == (result.state, result.return_value)


@in_transaction
def test_a_result_of_a_job_without_a_timeout_can_be_read():
    result = add.using(timeout=None).enqueue(1)
    result.refresh()
    assert "ready" == result.state
    assert "ready" == add.get_result(result.id).state


def timeouts() -> list[float | None]:
    return list(Job.objects.order_by("pk").values_list("timeout", flat=True))
