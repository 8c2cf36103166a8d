"""A limit and an expiry on their way from a task into the job's row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_jobs import Limit, task
from django_jobs.exceptions import InvalidLimit
from django_jobs.models import Job
from django_jobs.tasks import Call, arguments, keys
from tests.aliases import only_job
from tests.sample_tasks import add, attempt_of, echo, plain, send, undecorated

in_transaction = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)

limited = send.using(
    limit=Limit("customer:{customer}", size=2, rate="100/m", burst=3, when_busy="discard"),
    expires_after=timedelta(minutes=5),
)
WRITTEN = ("customer:7", 2, 0.6, 3, True)


def by_customer(order: dict[str, int]) -> str:
    """Return a key, of an order that has one."""
    return str(order["customer"])


def kept(job: Job) -> tuple[Any, ...]:
    """Return what a job's row keeps of its limit."""
    return job.limit_key, job.limit_size, job.limit_every, job.limit_burst, job.limit_discard


def lasts(job: Job) -> timedelta:
    """Return how long after its enqueue a job expires."""
    assert job.expires_at is not None
    return job.expires_at - job.enqueued_at


# Each way to enqueue


@in_transaction
@pytest.mark.parametrize(
    "enqueue",
    [
        lambda: limited.enqueue(1, customer=7),
        lambda: limited.enqueue_many([limited.s(1, customer=7)]),
        lambda: limited.using(requires=None).enqueue(1, customer=7),
    ],
    ids=["enqueue", "enqueue_many", "using"],
)
def test_a_job_keeps_its_limit_and_its_expiry(enqueue):
    enqueue()
    job = only_job()
    assert WRITTEN == kept(job)
    assert abs(lasts(job) - timedelta(minutes=5)) < timedelta(seconds=1)


@committing
def test_the_key_is_made_at_once_and_the_expiry_counts_from_the_commit():
    orders: dict[str, Any] = {"customer": 7}
    made: Any = echo.using(limit=Limit("c:{order}", size=1), expires_after=60)
    with transaction.atomic():
        made.enqueue_on_commit(order=orders)
        orders["customer"] = 8
        assert 0 == Job.objects.count()
    job = only_job()
    assert "c:{'customer': 7}" == job.limit_key
    assert timedelta(seconds=60) == lasts(job)


@in_transaction
def test_each_of_many_keeps_its_own():
    calls = [
        limited.s(1, customer=7),
        send.s(2, customer=7),
        add.using(limit=Limit("all", rate="1/s"), expires_after=1.5).s(3),
        echo.s(a=4),
    ]
    send.enqueue_many(calls)
    jobs = list(Job.objects.order_by("id"))
    none = (None, None, None, None, False)
    assert [WRITTEN, none, ("all", None, 1.0, 1, False), none] == [kept(job) for job in jobs]
    assert [True, False, True, False] == [job.expires_at is not None for job in jobs]
    assert timedelta(seconds=1.5) == lasts(jobs[2])


@in_transaction
@pytest.mark.parametrize("made", [add.s(1), Call(plain, [], {"a": 1})], ids=["ours", "djangos"])
def test_a_job_without_a_limit_keeps_none(made):
    made.task.enqueue(*made.args, **made.kwargs)
    job = only_job()
    assert (None, None, None, None, False) == kept(job)
    assert job.expires_at is None


@in_transaction
def test_a_task_without_a_limit_binds_no_arguments(monkeypatch):
    def bind(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(keys, "arguments_by_name", bind)
    add.enqueue(1)
    with pytest.raises(AssertionError):
        add.using(limit=Limit("a", size=1)).enqueue(1)


@in_transaction
def test_using_takes_a_limit_and_an_expiry_back():
    limited.using(limit=None, expires_after=None).enqueue(1, customer=7)
    job = only_job()
    assert (None, None) == (job.limit_key, job.expires_at)


# The arguments by name


@in_transaction
@pytest.mark.parametrize(
    ("made", "key", "args", "kwargs", "expected"),
    [
        (add, "{a}/{b}", (1,), {}, "1/0"),
        (add, "{a}/{b}", (), {"a": 1, "b": 2}, "1/2"),
        (send, "{order}/{customer}", (1,), {"customer": 2}, "1/2"),
        (attempt_of, "{value}", ("x",), {}, "x"),
        (attempt_of, "{value}", (), {}, "None"),
        (echo, "{any}/{kwargs}", (), {"any": 1, "kwargs": 2}, "1/2"),
        (add, lambda a, b=5: f"{a}/{b}", (1,), {}, "1/5"),
        (attempt_of, lambda value: value, ("x",), {}, "x"),
    ],
)
def test_the_key_sees_the_arguments_of_the_function(made, key, args, kwargs, expected):
    made.using(limit=Limit(key, size=1)).enqueue(*args, **kwargs)
    assert expected == only_job().limit_key


@in_transaction
def test_of_a_function_that_nobody_can_read_only_keywords_have_names(monkeypatch):
    def unknown(*args: object, **kwargs: object) -> None:
        raise NameError("an annotation that is imported for types alone")

    monkeypatch.setattr("django_jobs.tasks.arguments.inspect.signature", unknown)
    arguments._signature.cache_clear()
    try:
        anything: Any = task(undecorated, limit=Limit("{a}", size=1))
        anything.enqueue(1, a=3)
        assert "3" == only_job().limit_key
        with pytest.raises(InvalidLimit, match="asks for the argument 'a', which this call does"):
            anything.enqueue(1)
    finally:
        arguments._signature.cache_clear()


# What is refused


@in_transaction
@pytest.mark.parametrize(
    ("made", "args", "kwargs", "told"),
    [
        (
            add.using(limit=Limit("{a}", size=1)),
            ("x\n",),
            {},
            "tests.sample_tasks.add: the key of limit is 'x\\n'. Make it printable text of 1 to",
        ),
        (add.using(limit=Limit("{a}", size=1)), ("",), {}, "the key of limit is ''."),
        (
            echo.using(limit=Limit("{customer}", size=1)),
            (),
            {"order": 1},
            "tests.sample_tasks.echo: limit='{customer}' asks for the argument 'customer'",
        ),
        (
            add.using(limit=Limit(by_customer, size=1)),
            ({},),
            {},
            "tests.sample_tasks.add: the key of limit could not be made: its function raised Key",
        ),
    ],
    ids=["unprintable", "empty", "missing", "raised"],
)
def test_a_call_without_a_key_is_told_with_its_task_and_writes_nothing(made, args, kwargs, told):
    for enqueue in (made.enqueue, made.enqueue_on_commit):
        with pytest.raises(InvalidLimit) as refused:
            enqueue(*args, **kwargs)
        assert told in str(refused.value)
    with pytest.raises(InvalidLimit) as refused:
        made.enqueue_many([echo.s(), made.s(*args, **kwargs)])
    assert str(refused.value).startswith("Item 1: tests.sample_tasks.")
    assert told in str(refused.value)
    assert 0 == Job.objects.count()


@in_transaction
@pytest.mark.parametrize("many", [False, True])
def test_what_the_function_of_a_key_raised_is_the_cause(many):
    made: Any = add.using(limit=Limit(by_customer, size=1))
    with pytest.raises(InvalidLimit) as refused:
        made.enqueue_many([made.s({})]) if many else made.enqueue({})
    assert isinstance(refused.value.__cause__, KeyError)


@in_transaction
def test_arguments_are_compared_with_the_function_before_the_key_is_made():
    made: Any = send.using(limit=Limit(lambda *_, **__: "x", size=1))
    with pytest.raises(TypeError, match="cannot be called with these arguments"):
        made.enqueue()
