"""What enqueue refuses, and what it says to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation

from django_jobs import task
from django_jobs.exceptions import DatabaseRefused, InvalidCall
from django_jobs.models import Job
from django_jobs.tasks import arguments
from django_jobs.testing import run_jobs
from tests.aliases import only_job
from tests.sample_tasks import add, attempt_of, filled, later, send, undecorated

in_transaction = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)


@in_transaction
@pytest.mark.parametrize(
    ("made", "args", "kwargs", "told"),
    [
        (add, (), {}, "add(a, b=0) cannot be called with these arguments: missing a required"),
        (add, (1, 2, 3), {}, "too many positional arguments"),
        (add, (1,), {"c": 3}, "got an unexpected keyword argument 'c'"),
        (add, (1,), {"a": 3}, "multiple values for argument 'a'"),
        (send, (1, 2), {}, "send(order, *, customer) cannot"),
        (later, (), {}, "later(value) cannot"),
        (attempt_of, ("x", "y"), {}, "attempt_of(value=None) cannot"),
        (attempt_of, (), {"context": 1}, "unexpected keyword argument 'context'"),
    ],
)
def test_arguments_that_the_function_does_not_take_are_told_at_once(made, args, kwargs, told):
    with pytest.raises(TypeError) as refused:
        made.enqueue(*args, **kwargs)
    assert told in str(refused.value)
    assert str(refused.value).startswith(f"{made.module_path}(")
    with pytest.raises(TypeError):
        made.enqueue_on_commit(*args, **kwargs)
    with pytest.raises(InvalidCall, match=r"^Item 0: tests\.sample_tasks"):
        made.enqueue_many([made.s(*args, **kwargs)])
    assert 0 == Job.objects.count()


@in_transaction
def test_a_decorated_function_takes_what_its_decorator_takes():
    """Which may fill in an argument, so what it wraps is not asked."""
    filled.enqueue("word")
    assert ["word"] == only_job().args


@in_transaction
def test_a_function_whose_signature_nobody_can_tell_takes_anything(monkeypatch):
    def unknown(*args: object, **kwargs: object) -> None:
        raise NameError("an annotation that is imported for types alone")

    monkeypatch.setattr("django_jobs.tasks.arguments.inspect.signature", unknown)
    arguments._signature.cache_clear()
    anything: Any = task(undecorated)
    anything.enqueue(1, 2, a=3)
    arguments._signature.cache_clear()
    assert [1, 2] == only_job().args


ENQUEUES: list[Callable[[], object]] = [
    lambda: add.enqueue(1),
    lambda: add.enqueue_on_commit(1),
    lambda: add.enqueue_many([add.s(1)]),
    lambda: add.get_result("1"),
]
CURES = [
    r"await add\.aenqueue\(…\)",
    r"await add\.aenqueue\(…\)",
    r"await sync_to_async\(….enqueue_many\)",
    r"await ….aget_result\(id\)",
    r"await sync_to_async\(run_jobs\)\(…\)",
]
CALLS = ["enqueue", "on_commit", "many", "get_result"]


@committing
@pytest.mark.parametrize(
    ("use", "cure"),
    list(zip([*ENQUEUES, run_jobs], CURES, strict=True)),
    ids=[*CALLS, "run_jobs"],
)
def test_a_coroutine_is_told_what_to_await(use, cure):
    async def main() -> None:
        use()

    with pytest.raises(SynchronousOnlyOperation, match=cure):
        async_to_sync(main)()


@pytest.mark.parametrize("use", ENQUEUES, ids=CALLS)
def test_another_database_is_refused_in_the_words_of_the_check(monkeypatch, use):
    monkeypatch.setattr("django_jobs.backend.connections", {"default": Lite()})
    with pytest.raises(DatabaseRefused, match=r"'default', which is sqlite; .* Use PostgreSQL"):
        use()


class Lite:
    """A connection to SQLite, as far as the backend looks."""

    vendor = "sqlite"


@pytest.mark.parametrize("use", [*ENQUEUES, add.using], ids=[*CALLS, "using"])
def test_an_app_that_is_not_installed_is_told_with_the_cure(settings, use):
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_jobs"]
    with pytest.raises(ImproperlyConfigured, match=r"TASKS\['default'\] .* Add 'django_jobs' to"):
        use()
