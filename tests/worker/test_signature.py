"""A job whose arguments the deployed function no longer takes says so."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

import pytest

from django_jobs import JobContext, task
from django_jobs.exceptions import InvalidCall
from django_jobs.models import Job
from django_jobs.testing import run_jobs, running_worker
from django_jobs.worker import perform
from tests.aliases import only_job
from tests.processes import wait_for

HERE = "tests.worker.test_signature"
SINCE = "The function has changed since the job was enqueued"
in_transaction = pytest.mark.django_db


@task
def pay(order: int, *, amount: int) -> int:
    return order + amount


@task
async def apay(order: int) -> int:
    return order


@task(takes_context=True)
def cpay(context: JobContext, order: int) -> int:
    return order


@task
def clumsy(order: int) -> int:
    return pay.func(order)


@task
def picky(order: object) -> int:
    raise TypeError("an order is a number")


def says_otherwise(function: Any) -> Any:
    """Give another signature than the function's own, as some decorators do."""
    function.__signature__ = inspect.Signature()
    return function


@task
@says_otherwise
def entered(order: int) -> int:
    raise TypeError("an order is a number")


def through(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@task
@through
def wrapped(order: int) -> int:
    return order


def put(name: str, *args: Any, **kwargs: Any) -> Job:
    """Insert a job as an older deploy would have."""
    said: dict[str, Any] = {"args": list(args), "kwargs": kwargs}
    return Job.objects.create(task=f"{HERE}.{name}", state="ready", max_attempts=1, **said)


def error_of(name: str, *args: Any, **kwargs: Any) -> str:
    """Return the error of a job that was inserted, and run."""
    put(name, *args, **kwargs)
    run_jobs()
    job = only_job()
    assert "dead" == job.state
    return str(job.error)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "told"),
    [
        ("pay", [1], {}, "(order, *, amount) cannot be called with these arguments: missing a"),
        ("pay", [1, 2], {}, "(order, *, amount) cannot be called with these arguments: "),
        ("pay", [1], {"amount": 1, "way": "x"}, "got an unexpected keyword argument 'way'"),
        ("apay", [], {}, "(order) cannot be called with these arguments: missing a required"),
        ("cpay", [], {}, "(order) cannot be called with these arguments: missing a required"),
        ("cpay", [1, 2], {}, "(order) cannot be called with these arguments: too many"),
    ],
)
@in_transaction
def test_arguments_that_no_longer_fit_are_told(name, args, kwargs, told):
    error = error_of(name, *args, **kwargs)
    assert f"{HERE}.{name}" in error
    assert told in error
    assert SINCE in error


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("clumsy", "missing 1 required keyword-only argument: 'amount'"),
        ("picky", "an order is a number"),
        ("entered", "an order is a number"),
    ],
)
@in_transaction
def test_a_type_error_of_the_tasks_own_is_left_alone(name, told):
    error = error_of(name, 1)
    assert told in error
    assert SINCE not in error
    assert "InvalidCall" not in error


@in_transaction
def test_a_call_that_its_decorator_makes_is_its_own():
    error = error_of("wrapped")
    assert "missing 1 required positional argument: 'order'" in error
    assert SINCE not in error


@in_transaction
def test_arguments_that_fit_are_not_compared_again(monkeypatch):
    def compare(*args: object) -> None:
        raise AssertionError("a call that works costs no comparison")

    monkeypatch.setattr(perform, "misfit", compare)
    put("pay", 1, amount=2)
    run_jobs()
    assert ("succeeded", 3) == (only_job().state, only_job().result)


@in_transaction
def test_the_error_is_a_type_error_with_the_first_one_as_its_cause(monkeypatch):
    caught: list[Any] = []
    judge = perform.judge

    def judged(run: Any, task: Any, value: Any, error: Any, **given: Any) -> None:
        caught.append(error)
        judge(run, task, value, error, **given)

    monkeypatch.setattr("django_jobs.testing.drain.judge", judged)
    error_of("pay", 1)
    [error] = caught
    assert isinstance(error, InvalidCall)
    assert isinstance(error, TypeError)
    assert "missing 1 required keyword-only argument" in str(error.__cause__)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["pay", "apay"])
def test_a_worker_tells_it_too(name):
    job = put(name)
    with running_worker():
        wait_for(lambda: Job.objects.get(pk=job.pk).finished_at)
    assert SINCE in str(only_job().error)
