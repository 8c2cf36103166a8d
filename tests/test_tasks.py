"""What ``@task`` makes, how it is enqueued, and how a path leads back to it."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import django
import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import django_jobs
from django_jobs import constant, exponential, linear, task
from django_jobs.backend import JobsBackend, parse_id
from django_jobs.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    django_task,
    task_backends,
    task_enqueued,
)
from django_jobs.exceptions import InvalidPayload, UnknownTask
from django_jobs.models import Job
from django_jobs.states import FAILED, JobState
from django_jobs.tasks import STATUS, JobResult, JobTask, placeholder, rebuild, resolve

BACKEND = "django_jobs.backend.JobsBackend"
TASKS_BACKENDS = f"{django_task.__module__.rpartition('.')[0]}.backends"
DUMMY = f"{TASKS_BACKENDS}.dummy.DummyBackend"
IMMEDIATE = f"{TASKS_BACKENDS}.immediate.ImmediateBackend"
HERE = "tests.test_tasks"

in_transaction = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)


@task
def add(a: Any, b: Any = 0) -> Any:
    return a + b


@task(
    queue_name="mail",
    priority=7,
    max_attempts=5,
    backoff=linear(base=3, cap=60),
    retry_on=(OSError, LookupError),
    give_up_on=(FileNotFoundError,),
    keep_dead=False,
    idempotent=False,
    metadata={"team": "shop"},
)
def send(order: int, *, customer: int) -> str:
    return f"{order}/{customer}"


@django_task
def plain(**kwargs: Any) -> Any:
    return kwargs


@task
def echo(**kwargs: Any) -> Any:
    return kwargs


@task
async def later(value: str) -> str:
    return value


class Shelf:
    """A class that holds a task."""

    @task
    def dust(shelf: str) -> None:  # noqa: N805 - a function of the class, not of its objects
        """Do nothing."""


def undecorated() -> None:
    """Do nothing, and be no task."""


def rule(error: BaseException, result: Any) -> float | None:
    return 3.0 if isinstance(error, OSError) and result else None


make: Any = JobTask  # with whatever arguments
declare: Any = task
django_declare: Any = django_task
elsewhere = django_jobs.tasks.task(undecorated)  # under another name than its function's


@pytest.fixture
def backends(settings):
    """Set TASKS: ours twice, and Django's two."""
    ours = {"BACKEND": BACKEND, "QUEUES": []}
    settings.TASKS = {
        "default": ours,
        "second": ours,
        "dummy": {"BACKEND": DUMMY, "QUEUES": []},
        "immediate": {"BACKEND": IMMEDIATE, "QUEUES": []},
    }


def only_job() -> Any:
    return Job.objects.get()


def db_now() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
        return now


# Declaration


def test_a_bare_decorator_leaves_everything_to_the_settings():
    assert isinstance(add, JobTask)
    assert (0, "default", "default", None, False) == (
        add.priority,
        add.queue_name,
        add.backend,
        add.run_after,
        add.takes_context,
    )
    assert (None, None, (Exception,), ()) == (
        add.max_attempts,
        add.backoff,
        add.retry_on,
        add.give_up_on,
    )
    assert (True, True, None) == (add.keep_dead, add.idempotent, add.metadata)


def test_a_function_may_be_given_with_options():
    assert 4 == task(undecorated, max_attempts=4).max_attempts


def test_djangos_own_decorator_makes_a_task_of_ours():
    assert isinstance(plain, JobTask)


def test_djangos_own_decorator_passes_options_on_where_it_can():
    if django.VERSION[:2] == (6, 0):
        with pytest.raises(TypeError):
            django_declare(max_attempts=4)
    else:
        assert 4 == django_declare(max_attempts=4)(undecorated).max_attempts


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("max_attempt", "max_attempts"),
        ("retries_on", "retry_on"),
        ("queue", "queue_name"),
        ("func", None),
        ("xyz", None),
    ],
)
def test_an_unknown_option_is_a_type_error_with_the_known_one(name, near):
    with pytest.raises(TypeError) as refused:
        declare(**{name: 1})
    hint = f" Did you mean {near!r}?" if near else ""
    assert f"task() has no option {name!r}.{hint}" == str(refused.value)


@pytest.mark.parametrize("name", ["run_after", "delay"])
def test_a_time_cannot_be_declared(name):
    with pytest.raises(TypeError, match="differs from call to call; say using"):
        declare(**{name: timedelta(minutes=1)})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_attempts": 0}, "max_attempts=0 must be a whole number from 1 to 1,000"),
    ({"max_attempts": 1001}, "max_attempts=1001 must be"),
    ({"max_attempts": True}, "max_attempts=True must be"),
    ({"max_attempts": 3.0}, "max_attempts=3.0 must be"),
    ({"max_attempts": "3"}, "max_attempts='3' must be"),
    ({"backoff": 3}, "backoff=3 must be exponential(…), linear(…), constant(…) or a function"),
    ({"backoff": "linear"}, "backoff='linear' must be"),
    ({"retry_on": OSError}, "must be a tuple of exception classes, such as (OSError,)"),
    ({"retry_on": (OSError(),)}, "retry_on holds OSError(); it must hold exception classes only"),
    ({"retry_on": ("builtins.OSError",)}, "retry_on holds 'builtins.OSError'"),
    ({"retry_on": None}, "retry_on=None must be a tuple"),
    ({"give_up_on": (int,)}, "give_up_on holds <class 'int'>"),
    ({"keep_dead": 1}, "keep_dead=1 must be True or False"),
    ({"idempotent": None}, "idempotent=None must be True or False"),
    ({"metadata": ["a"]}, "metadata=['a'] must be a dictionary"),
    ({"metadata": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, "metadata.at: datetime is not JSON"),
    ({"metadata": {"long": "x" * 20_000}}, "but its limit is 16,384"),
    ({"priority": True}, "priority=True must be a whole number from -100 to 100"),
    ({"priority": 1.0}, "priority=1.0 must be"),
    ({"priority": "high"}, "priority='high' must be"),
    ({"priority": None}, "priority=None must be"),
    ({"priority": 101}, "priority must be a whole number between -100 and 100"),
    ({"queue_name": "a b"}, "queue_name='a b' cannot be used: the name of a queue is 1 to 100"),
    ({"queue_name": ""}, "queue_name='' cannot be used"),
    ({"queue_name": ["a"]}, "queue_name=['a'] cannot be used"),
    ({"queue_name": "nobody"}, "Queue 'nobody' is not valid for backend"),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=repr)
def test_a_wrong_option_is_an_invalid_task_where_it_is_declared(options, words):
    with pytest.raises(InvalidTask) as refused:
        declare(**options)(undecorated)
    assert words in str(refused.value)


@pytest.mark.parametrize("options", [options for options, _ in WRONG[:17]], ids=repr)
def test_a_wrong_option_of_ours_is_told_with_the_task(options):
    with pytest.raises(InvalidTask, match=f"{HERE}.undecorated: "):
        declare(**options)(undecorated)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 1},
        {"max_attempts": 1000},
        {"backoff": exponential()},
        {"backoff": constant(1)},
        {"backoff": rule},
        {"retry_on": ()},
        {"retry_on": (KeyboardInterrupt,)},
        {"metadata": {}},
        {"priority": -100},
        {"priority": 100},
    ],
    ids=repr,
)
def test_right_options_are_kept(options):
    [(name, value)] = options.items()
    assert value == getattr(declare(**options)(undecorated), name)


def test_exception_classes_may_come_in_a_list():
    assert (OSError,) == declare(undecorated, retry_on=[OSError]).retry_on


def test_functions_that_no_worker_can_import_are_refused():
    def local() -> None:
        """Be local."""

    for wrong in (local, LAMBDA, Shelf, Shelf(), "x", None, sum):
        with pytest.raises(InvalidTask):
            make(func=wrong, **DEFAULTS)


LAMBDA = lambda: None  # noqa: E731 - it is at the top of a module, as Django asks
DEFAULTS: dict[str, Any] = {
    "priority": 0,
    "backend": "default",
    "queue_name": "default",
    "run_after": None,
}


def test_a_path_longer_than_a_worker_looks_at_is_refused():
    def named() -> None:
        """Get a name."""

    named.__name__ = named.__qualname__ = "x" * 480
    assert named is make(func=named, **DEFAULTS).func
    named.__name__ = named.__qualname__ = "x" * 490
    with pytest.raises(InvalidTask, match="cannot be imported by a worker"):
        make(func=named, **DEFAULTS)


def test_metadata_is_a_copy_that_nobody_changes_later():
    given = {"deep": [1]}
    made = task(undecorated, metadata=given)
    given["deep"].append(2)
    assert {"deep": [1]} == made.metadata


def test_a_task_can_be_hashed_compared_and_copied():
    assert 1 == len({send, send.using(), copy.deepcopy(send)})
    assert send == send.using(priority=7) != send.using(priority=8)


def test_a_task_can_be_pickled_where_djangos_can():
    if django.VERSION >= (6, 1):
        assert send == pickle.loads(pickle.dumps(send))


def test_a_task_cannot_be_changed():
    with pytest.raises(AttributeError):
        send.max_attempts = 3  # type: ignore[misc]


# Other values of one task


def test_using_keeps_the_class_and_what_is_not_named():
    other = send.using(priority=3, queue_name="default", metadata={"a": 1})
    assert (JobTask, 3, "default", 5, {"a": 1}) == (
        type(other),
        other.priority,
        other.queue_name,
        other.max_attempts,
        other.metadata,
    )
    assert (7, "mail", {"team": "shop"}) == (send.priority, send.queue_name, send.metadata)


def test_the_last_time_that_is_said_counts():
    at, wait = datetime(2030, 1, 1, tzinfo=UTC), timedelta(minutes=5)
    times = [
        (made.run_after, made.delay)
        for made in (
            add.using(run_after=at),
            add.using(run_after=wait),
            add.using(run_after=at).using(run_after=wait),
            add.using(run_after=wait).using(run_after=at),
            add.using(run_after=wait).using(priority=1),
        )
    ]
    assert [(at, None), (None, wait), (None, wait), (at, None), (None, wait)] == times


@pytest.mark.parametrize(
    "when",
    [
        "tomorrow",
        3600,
        datetime(2030, 1, 1),  # noqa: DTZ001 - naive on purpose
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
        timedelta.max,
        timedelta(days=36_501),
    ],
    ids=repr,
)
def test_a_time_that_cannot_be_kept_is_an_invalid_task(when):
    with pytest.raises(InvalidTask, match="run_after"):
        add.using(run_after=when)


def test_using_knows_its_options():
    with pytest.raises(TypeError, match="max_attempts"):
        add.using(max_attempts=3)  # type: ignore[call-arg]


# Enqueue


@in_transaction
def test_the_row_holds_what_the_task_says():
    send.enqueue(42, customer=7)
    job = only_job()
    assert (f"{HERE}.send", "default", "mail", 7, "ready") == (
        job.task,
        job.backend,
        job.queue,
        job.priority,
        job.state,
    )
    assert ([42], {"customer": 7}, {"team": "shop"}) == (job.args, job.kwargs, job.metadata)
    assert (5, "linear", 3.0, 60.0, 0.25) == (
        job.max_attempts,
        job.backoff,
        job.backoff_base,
        job.backoff_cap,
        job.backoff_jitter,
    )
    assert ["builtins.OSError", "builtins.LookupError"] == job.retry_on
    assert ["builtins.FileNotFoundError"] == job.give_up_on
    assert (False, False) == (job.keep_dead, job.idempotent)


@in_transaction
@pytest.mark.parametrize("made", [add, plain], ids=["ours", "plain"])
def test_the_row_holds_the_settings_where_the_task_says_nothing(settings, made):
    options = {"max_attempts": 9, "backoff": constant(5, jitter=0)}
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": options}}
    made.enqueue(a=1)
    job = only_job()
    assert (9, "constant", 5.0, 0.0) == (
        job.max_attempts,
        job.backoff,
        job.backoff_base,
        job.backoff_jitter,
    )
    assert (None, None, True, True, None) == (
        job.retry_on,
        job.give_up_on,
        job.keep_dead,
        job.idempotent,
        job.metadata,
    )


@in_transaction
def test_a_function_as_backoff_leaves_the_numbers_of_the_settings_on_the_row():
    task(undecorated, backoff=rule).enqueue()
    assert ("exponential", 2.0) == (only_job().backoff, only_job().backoff_base)


@in_transaction
def test_a_task_that_never_retries_says_so_on_the_row():
    task(undecorated, retry_on=()).enqueue()
    assert [] == only_job().retry_on


@in_transaction
def test_the_task_class_of_somebody_else_is_enqueued_with_the_defaults(backends):
    foreign: Any = task_backends["dummy"].task_class(func=plain.func, **DEFAULTS)
    assert not isinstance(foreign, JobTask)
    result = foreign.enqueue(a=1)
    assert (3, True) == (only_job().max_attempts, only_job().keep_dead)
    assert foreign is result.task


@in_transaction
def test_a_result_has_the_finer_state_and_the_metadata():
    result = send.using(run_after=timedelta(hours=1)).enqueue(1, customer=2)
    assert isinstance(result, JobResult)
    assert (JobState.SCHEDULED, TaskResultStatus.READY, {"team": "shop"}) == (
        result.state,
        result.status,
        result.metadata,
    )
    assert {} == add.enqueue(1).metadata  # type: ignore[attr-defined]


@in_transaction
def test_refresh_takes_the_finer_state_and_the_metadata():
    result = add.enqueue(1)
    assert isinstance(result, JobResult)
    Job.objects.update(state="cancelled", finished_at=db_now(), metadata={"a": 1})
    result.refresh()
    assert (JobState.CANCELLED, TaskResultStatus.FAILED, {"a": 1}) == (
        result.state,
        result.status,
        result.metadata,
    )


@in_transaction
def test_a_keyword_argument_may_be_called_self():
    echo.enqueue(self=1, delay=2, kwargs=3)
    echo.enqueue_many([echo.s(self=1, calls=2)])
    assert [{"self": 1, "delay": 2, "kwargs": 3}, {"self": 1, "calls": 2}] == [
        job.kwargs for job in Job.objects.order_by("id")
    ]


@in_transaction
def test_a_delay_counts_by_the_clock_of_the_database():
    before = db_now()
    add.using(run_after=timedelta(minutes=5)).enqueue(1)
    job = only_job()
    assert "scheduled" == job.state
    assert before <= job.run_after - timedelta(minutes=5) <= db_now()


@in_transaction
@pytest.mark.parametrize("wait", [timedelta(0), timedelta(seconds=-5), timedelta.min], ids=repr)
def test_a_delay_that_is_over_means_now(wait):
    add.using(run_after=wait).enqueue(1)
    assert "ready" == only_job().state


@in_transaction
@pytest.mark.parametrize("year", [2, 1900, 2999, 9998])
def test_a_distant_time_is_kept_and_read(year):
    when = datetime(year, 6, 1, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=14)))
    result = add.using(run_after=when).enqueue(1)
    assert when == add.get_result(result.id).task.run_after
    assert ("scheduled" if year > 2100 else "ready") == only_job().state


@in_transaction
@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=5))], ids=str)
def test_without_time_zones_a_time_is_that_of_the_site_or_its_own(settings, zone):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    add.using(run_after=datetime(2999, 1, 1, 12, tzinfo=zone)).enqueue(1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT run_after AT TIME ZONE 'UTC' FROM django_jobs_job")
        assert [(datetime(2999, 1, 1, 7 if zone else 3),)] == cursor.fetchall()  # noqa: DTZ001


@in_transaction
def test_an_enqueue_is_one_statement():
    with CaptureQueriesContext(
        connection,
    ) as queries:
        send.enqueue(1, customer=2)
    assert 1 == len(queries)


@in_transaction
def test_arguments_have_a_limit(settings):
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": {"max_payload_bytes": 100}}}
    add.enqueue("x" * 90)
    with pytest.raises(InvalidPayload, match="max_payload_bytes is 100"):
        add.enqueue("x" * 60, b="x" * 60)


@in_transaction
def test_what_json_cannot_say_is_told_with_its_place():
    with pytest.raises(InvalidPayload, match=r"kwargs\.items\[3\]\.price: Decimal is not JSON"):
        plain.enqueue(items=[0, 1, 2, {"price": Decimal(1)}])
    assert 0 == Job.objects.count()


@in_transaction
def test_options_are_checked_again_when_a_job_is_enqueued(settings):
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["other"]}}
    with pytest.raises(InvalidTask, match="Queue 'default' is not valid"):
        add.enqueue(1)
    with pytest.raises(InvalidTask), transaction.atomic():
        add.enqueue_on_commit(1)


@committing
def test_aenqueue_works_in_a_running_loop():
    async def main() -> Any:
        result = await add.aenqueue(1, b=2)
        return await add.aget_result(result.id)

    assert ([1], {"b": 2}) == ((result := async_to_sync(main)()).args, result.kwargs)


@committing
def test_an_alias_of_its_own_keeps_its_jobs(backends):
    result = add.using(backend="second").enqueue(1)
    assert ("second", "second", "second") == (
        result.backend,
        result.task.backend,
        only_job().backend,
    )
    assert result.id == add.using(backend="second").get_result(result.id).id
    with pytest.raises(TaskResultDoesNotExist):
        add.get_result(result.id)


@in_transaction
def test_a_backend_that_is_called_itself_uses_its_own_alias(backends):
    result = task_backends["second"].enqueue(add, [1], {})
    assert ("second", "second") == (result.backend, result.task.backend)
    result.refresh()


@in_transaction
def test_a_result_belongs_to_its_task():
    with pytest.raises(TaskResultMismatch):
        send.get_result(add.enqueue(1).id)


# enqueue_on_commit


@committing
def test_enqueue_on_commit_waits_for_the_commit():
    with transaction.atomic():
        add.enqueue_on_commit(1)
        assert 0 == Job.objects.count()
    assert [1] == only_job().args


@committing
def test_enqueue_on_commit_goes_with_a_rollback():
    with transaction.atomic():
        add.enqueue_on_commit(1)
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            add.enqueue_on_commit(2)
            transaction.set_rollback(True)
        add.enqueue_on_commit(3)
    assert [3] == only_job().args


@committing
def test_enqueue_on_commit_is_immediate_without_a_transaction():
    add.enqueue_on_commit(1)
    assert [1] == only_job().args


@committing
def test_enqueue_on_commit_checks_and_takes_down_its_arguments_at_once():
    items = [1]
    with transaction.atomic():
        with pytest.raises(InvalidPayload):
            echo.enqueue_on_commit(bad=object())
        echo.enqueue_on_commit(items=items)
        items.append(2)
    assert {"items": [1]} == only_job().kwargs


@committing
def test_enqueue_on_commit_counts_a_delay_from_the_commit():
    with transaction.atomic():
        add.using(run_after=timedelta(hours=1)).enqueue_on_commit(1)
        committed_after = db_now()
    assert committed_after + timedelta(hours=1) <= only_job().run_after


@committing
def test_enqueue_on_commit_sends_the_signal_with_the_job(sent):
    with transaction.atomic():
        add.enqueue_on_commit(1)
        assert [] == sent
    assert [(str(only_job().pk), JobsBackend)] == sent


@pytest.fixture
def sent() -> Iterator[list[tuple[str, Any]]]:
    """Note the id and sender of each task_enqueued."""
    noted: list[tuple[str, Any]] = []

    def note(*, sender: Any, task_result: Any, **_: Any) -> None:
        noted.append((task_result.id, sender))

    task_enqueued.connect(note)
    yield noted
    task_enqueued.disconnect(note)


# enqueue_many


@in_transaction
def test_enqueue_many_returns_the_ids_in_order():
    ids = add.enqueue_many(add.s(number) for number in range(2345))
    assert (
        [[number] for number in range(2345)]
        == [Job.objects.in_bulk(map(int, ids))[int(text)].args for text in ids]
        if len(ids) < 10
        else [job.args for job in Job.objects.order_by("id")]
    )
    assert [str(job.pk) for job in Job.objects.order_by("id")] == ids


@in_transaction
def test_enqueue_many_takes_calls_of_several_tasks_and_options():
    ids = add.enqueue_many(
        [
            add.s(1, b=2),
            send.s(1, customer=2),
            send.using(priority=9, run_after=timedelta(hours=1)).s(3, customer=4),
            task(undecorated, retry_on=(), backoff=constant(7)).s(),
        ],
    )
    jobs = [Job.objects.get(pk=text) for text in ids]
    assert [("ready", 0), ("ready", 7), ("scheduled", 9), ("ready", 0)] == [
        (job.state, job.priority) for job in jobs
    ]
    assert [None, ["builtins.OSError", "builtins.LookupError"], []] == [
        job.retry_on for job in (jobs[0], jobs[1], jobs[3])
    ]
    assert [2.0, 3.0, 3.0, 7.0] == [job.backoff_base for job in jobs]


@in_transaction
def test_enqueue_many_checks_all_before_the_first_insert():
    def calls() -> Iterator[Any]:
        yield from (add.s(number) for number in range(1500))
        yield add.s(object())

    with CaptureQueriesContext(connection) as queries, pytest.raises(InvalidPayload):
        add.enqueue_many(calls())
    assert 0 == len(queries)


@in_transaction
@pytest.mark.parametrize("wrong", [1, None, add, (add, (1,), {})], ids=repr)
def test_enqueue_many_takes_calls_only(wrong):
    with pytest.raises(TypeError, match=r"Item 1 is no call; make it with task\.s"):
        add.enqueue_many([add.s(1), wrong])


@in_transaction
def test_enqueue_many_refuses_calls_of_another_backend(backends):
    with pytest.raises(InvalidTask, match="Item 1 is for the backend 'second', the task for"):
        add.enqueue_many([add.s(1), add.using(backend="second").s(2)])
    assert 0 == Job.objects.count()


@in_transaction
def test_enqueue_many_of_nothing_does_nothing():
    assert [] == add.enqueue_many([])


@in_transaction
def test_enqueue_many_sends_a_signal_for_each_job(sent):
    ids = add.enqueue_many([add.s(1), add.s(2)])
    assert [(text, JobsBackend) for text in ids] == sent


# Other backends, as in the tests of a site


def test_on_the_dummy_backend_everything_works(backends):
    made: Any = send.using(backend="dummy", run_after=timedelta(hours=1))
    before = datetime.now(UTC)
    result = made.enqueue(1, customer=2)
    assert 2 == len(made.enqueue_many([made.s(1, customer=2), made.s(2, customer=2)]))
    assert 3600 <= (result.task.run_after - before).total_seconds() <= 3660
    assert 3 == len(task_backends["dummy"].results)  # type: ignore[attr-defined]
    assert (5, "mail") == (result.task.max_attempts, result.task.queue_name)


def test_on_the_immediate_backend_everything_works(backends):
    made = add.using(backend="immediate")
    assert 3 == made.enqueue(1, b=2).return_value
    assert 3 == async_to_sync(made.aenqueue)(1, b=2).return_value
    assert "x" == later.using(backend="immediate").enqueue("x").return_value
    with pytest.raises(InvalidTask, match="does not support run_after"):
        made.using(run_after=timedelta(hours=1))


@in_transaction
def test_on_another_backend_enqueue_on_commit_checks_now(
    backends, django_capture_on_commit_callbacks
):
    made = add.using(backend="dummy")
    with django_capture_on_commit_callbacks(execute=True):
        made.enqueue_on_commit(1)
        assert [] == task_backends["dummy"].results  # type: ignore[attr-defined]
    assert 1 == len(task_backends["dummy"].results)  # type: ignore[attr-defined]
    object.__setattr__(made, "priority", 1000)
    with pytest.raises(InvalidTask):
        made.enqueue_on_commit(1)


# From a path to its task


@pytest.mark.parametrize("name", ["add", "plain", "later", "send"])
def test_a_path_leads_to_its_task(name):
    assert getattr(sys.modules[HERE], name) is resolve(f"{HERE}.{name}")


def test_a_task_in_a_class_is_found():
    assert Shelf.dust is resolve(f"{HERE}.Shelf.dust")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "not a dotted path"),
        ("add", "not a dotted path"),
        (".add", "not a dotted path"),
        ("tests..add", "not a dotted path"),
        ("tests.test_tasks.add.", "not a dotted path"),
        ("tests.test_tasks.add\n", "not a dotted path"),
        ("os.system('true')", "not a dotted path"),
        ("../../etc/passwd", "not a dotted path"),
        ("a." * 300 + "a", "not a dotted path"),
        ("nowhere.tasks.add", "there is no module nowhere.tasks"),
        ("tests.nowhere.add", "its module has no nowhere.add"),
        (f"{HERE}.nothing", "its module has no nothing"),
        (f"{HERE}.undecorated", "a function is there, not a task"),
        (f"{HERE}.Shelf", "a type is there, not a task"),
        (f"{HERE}.elsewhere", "the task there calls itself tests.test_tasks.undecorated"),
        (f"{HERE}.add.func", "its module has no add.func"),
        ("os.path.join", "a function is there, not a task"),
        ("os.environ.get", "its module has no environ.get"),
        ("builtins.exec", "a builtin_function_or_method is there, not a task"),
    ],
)
def test_what_is_no_task_is_unknown_with_the_reason(path, reason):
    with pytest.raises(UnknownTask) as refused:
        resolve(path)
    assert (path, True) == (refused.value.path, reason in refused.value.reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('no database')", "failed: RuntimeError('no database')"),
        ("raise SystemExit(3)", "failed: SystemExit(3)"),
        (
            "import nowhere_at_all",
            "failed: ModuleNotFoundError(\"No module named 'nowhere_at_all'\")",
        ),
        ("def (", "failed: SyntaxError("),
        ("class E(Exception):\n def __repr__(self): raise E\nraise E", "failed: E"),
    ],
)
def test_a_module_that_cannot_be_imported_makes_its_tasks_unknown(
    tmp_path, monkeypatch, body, reason
):
    (tmp_path / "broken_tasks.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownTask) as refused:
        resolve("broken_tasks.add")
    assert reason in refused.value.reason


def test_a_module_that_can_be_imported_later_is_found_then(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late_tasks.py").write_text("raise OSError('passing')")
    with pytest.raises(UnknownTask):
        resolve("late_tasks.hello")
    text = "from django_jobs import task\n@task\ndef hello_again(): pass\n"
    (tmp_path / "late_tasks.py").write_text(text)
    assert "late_tasks.hello_again" == resolve("late_tasks.hello_again").module_path


def test_nothing_is_called_on_the_way_to_a_task(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lazy_tasks.py").write_text(
        "called = []\n"
        "def __getattr__(name): called.append(name)\n"
        "class Meta(type):\n @property\n def add(cls): called.append('add')\n"
        "class Shelf(metaclass=Meta):\n pass\n"
        "from django.utils.functional import SimpleLazyObject\n"
        "lazy = SimpleLazyObject(lambda: called.append('lazy'))\n",
    )
    for name in ("add", "Shelf.add", "called.append", "lazy", "lazy.add"):
        with pytest.raises(UnknownTask):
            resolve(f"lazy_tasks.{name}")
    called = sys.modules["lazy_tasks"].called
    assert [] == [name for name in called if name != "__path__"]  # Python's own import asks


def test_a_rebuilt_task_differs_in_what_is_named_and_is_not_checked():
    made = rebuild(send, priority=1000, backend="nowhere", queue_name="a b")
    assert (1000, "nowhere", "a b", 5) == (
        made.priority,
        made.backend,
        made.queue_name,
        made.max_attempts,
    )
    assert send == rebuild(made, priority=7, backend="default", queue_name="mail")


def test_a_placeholder_says_which_task_is_gone():
    gone = placeholder("shop.tasks.old")
    assert ("shop.tasks.old", "old", "default") == (gone.module_path, gone.name, gone.backend)
    assert "shop.tasks.old" in repr(gone.func.__qualname__) or "old" == gone.func.__qualname__
    with pytest.raises(UnknownTask, match=r"shop\.tasks\.old"):
        gone.call(1, a=2)


# Small things


def test_every_state_has_a_status():
    assert set(JobState) == set(STATUS)
    assert {TaskResultStatus.FAILED} == {STATUS[state] for state in FAILED}
    running = [state for state in JobState if STATUS[state] == TaskResultStatus.RUNNING]
    assert [JobState.RUNNING] == running


@pytest.mark.parametrize("wrong", [7, None, True, b"7", 7.0, UUID(int=7)], ids=repr)
def test_an_id_is_text(wrong):
    with pytest.raises(TaskResultDoesNotExist):
        parse_id(wrong)


def test_ids_reach_as_far_as_the_column():
    assert 2**63 - 1 == parse_id(str(2**63 - 1))
    with pytest.raises(TaskResultDoesNotExist):
        parse_id(str(2**63))


def test_the_public_names_are_these():
    expected = ["CancelJob", "RetryJob", "SnoozeJob", "constant", "exponential", "linear", "task"]
    assert expected == sorted(django_jobs.__all__)
    assert all(hasattr(django_jobs, name) for name in expected)
