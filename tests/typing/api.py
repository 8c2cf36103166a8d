"""The public hints, held by mypy: nothing here is run.

``assert_type`` says what must be known; each ``type: ignore`` stands on a mistake that must
be found, for mypy reports those that it does not need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import assert_type

from django_jobs import (
    CancelJob,
    JobContext,
    Limit,
    Requires,
    RetryJob,
    SnoozeJob,
    chain,
    constant,
    exponential,
    group,
    linear,
    task,
)
from django_jobs.conf import Options
from django_jobs.retries import Backoff
from django_jobs.states import JobState
from django_jobs.tasks import AnyContext, AnyResult, Call, JobResult, JobTask
from django_jobs.tasks.flow import Flow


@task
def bare(a: int, *, b: str = "") -> float:
    return a + len(b)


def give_up(error: BaseException, result: AnyResult) -> float | None:
    return None if isinstance(error, KeyError) else 2.0 * result.attempts


@task(
    queue_name="mail",
    priority=3,
    max_attempts=5,
    backoff=exponential(base=2, cap=600),
    retry_on=(OSError,),
    give_up_on=(KeyError,),
    keep_dead=False,
    idempotent=False,
    metadata={"team": "shop"},
    requires=Requires(host="web-1", labels={"gpu"}, resources={"memory_mb": 6000, "cpus": 0.5}),
    limit=Limit("order:{order}", size=2, rate="100/m", burst=5, when_busy="discard"),
    expires_after=timedelta(minutes=5),
    timeout=timedelta(seconds=30),
    atomic=True,
    isolation="thread",
    unique="order:{order}",
    on_conflict="raise",
)
def with_options(order: int) -> str:
    raise RetryJob(after=timedelta(seconds=order))


@task(backoff=give_up)
async def coroutine(a: int) -> bytes:
    raise SnoozeJob(until=datetime.now(UTC))


@task(takes_context=True, backoff=linear(base=1))
def with_context(context: AnyContext, a: int) -> list[str]:
    assert_type(context.attempt, int)
    raise CancelJob(str(a))


@task(takes_context=True)
def with_job_context(context: JobContext, a: int) -> float:
    assert_type(context.attempt, int)
    assert_type(context.lease_lost, bool)
    assert_type(context.cancelled, bool)
    if context.metadata["team"] == "shop":
        raise SnoozeJob(60)
    raise SnoozeJob("60")  # type: ignore[arg-type]


class OwnContext(AnyContext):
    """What the worker hands over may be more than Django's context."""


@task(takes_context=True)
def with_own_context(context: OwnContext, a: int) -> int:
    return a


@task(takes_context=True)
async def coroutine_with_context(context: AnyContext, a: int) -> None:
    context.task_result.refresh()


def later(a: int) -> str:
    return str(a)


called = task(later, max_attempts=3)

# What is declared

assert_type(constant(3), Backoff)
as_task: JobTask[[int], str] = with_options
as_task = called
as_task_too: JobTask[[int], int] = with_own_context
as_task = bare  # type: ignore[assignment]

task(max_attempt=3)  # type: ignore[call-overload]
task(max_attempts="3")  # type: ignore[call-overload]
task(run_after=datetime.now(UTC))  # type: ignore[call-overload]
task(retry_on=(OSError(),))  # type: ignore[arg-type]
task(backoff=3)  # type: ignore[call-overload]
task(requires={"labels": {"gpu"}})  # type: ignore[call-overload]
Requires(lables={"gpu"})  # type: ignore[call-arg]
Requires(labels=["gpu"], resources={"cpus": "2"})  # type: ignore[dict-item]
Requires("web-1")  # type: ignore[call-arg]
task(limit="order:{order}")  # type: ignore[call-overload]
task(unique=7)  # type: ignore[call-overload]
task(on_conflict="ignore")  # type: ignore[call-overload]
task(expires_after="60")  # type: ignore[call-overload]
task(timeout=None, isolation="process", memory_mb=500)
task(timeout=0.5, memory_mb=None)
task(timeout="60")  # type: ignore[call-overload]
task(atomic="yes")  # type: ignore[call-overload]
task(isolation="fork")  # type: ignore[call-overload]
task(memory_mb=1.5)  # type: ignore[call-overload]
Limit(str, rate="1/s")
Limit(3, size=2)  # type: ignore[arg-type]
Limit("all", size="2")  # type: ignore[arg-type]
Limit("all", size=2, when_busy="drop")  # type: ignore[arg-type]
assert_type(Limit("all", rate="1/s").every, float | None)

# What is called

assert_type(bare.call(1, b="x"), float)
assert_type(coroutine.call(1), bytes)
bare.call("1")  # type: ignore[arg-type]


async def calls() -> None:
    assert_type(await coroutine.acall(1), bytes)
    assert_type((await with_options.aenqueue(1)).return_value, str)
    assert_type((await with_options.aenqueue(1)).state, JobState)
    assert_type((await with_options.aget_result("1")).state, JobState)
    await with_options.aenqueue("1")  # type: ignore[arg-type]


# What is enqueued

assert_type(bare.enqueue(1, b="x").return_value, float)
assert_type(coroutine.enqueue(1).return_value, bytes)
assert_type(with_context.enqueue(1).return_value, list[str])
assert_type(with_options.get_result("1").return_value, str)
assert_type(bare.enqueue(1).state, JobState)
assert_type(with_job_context.enqueue(1).return_value, float)
assert_type(with_options.get_result("1").state, JobState)
bare.enqueue(1).metadata["team"].upper()
any_result: JobResult = bare.enqueue(1)
bare.delay(1)  # type: ignore[attr-defined]
with_options.enqueue_on_commit(1)

bare.enqueue("1")  # type: ignore[arg-type]
bare.enqueue(1, c=2)  # type: ignore[call-arg]
bare.enqueue()  # type: ignore[call-arg]
with_context.enqueue(1, 2)  # type: ignore[call-arg]
with_options.enqueue_on_commit("1")  # type: ignore[arg-type]

# Other values, and many calls

later_on = with_options.using(priority=1, run_after=timedelta(minutes=5))
assert_type(later_on.enqueue(1).return_value, str)
later_on.enqueue("1")  # type: ignore[arg-type]
with_options.using(run_after=datetime.now(UTC), queue_name="x", metadata={"a": 1}).enqueue(1)
with_options.using(max_attempts=3)  # type: ignore[arg-type]
assert_type(with_options.using(requires=Requires()).enqueue(1).return_value, str)
with_options.using(requires=None).enqueue(1)
with_options.using(requires={"gpu"})  # type: ignore[arg-type]
with_options.using(limit=None, expires_after=None).enqueue(1)
assert_type(with_options.using(limit=Limit("a", size=1)).enqueue(1).return_value, str)
with_options.using(expires_after=1.5).enqueue(1)
assert_type(with_options.using(unique=None).enqueue(1).created, bool)
with_options.using(unique=str, on_conflict="replace").enqueue(1)
with_options.using(unique=7)  # type: ignore[arg-type]
with_options.using(on_conflict="ignore")  # type: ignore[arg-type]
with_options.using(limit="a")  # type: ignore[arg-type]
with_options.using(expires_after="1")  # type: ignore[arg-type]
assert_type(with_options.using(timeout=timedelta(minutes=5)).enqueue(1).return_value, str)
with_options.using(timeout=None).using(timeout=1.5).enqueue(1)
with_options.using(timeout="1")  # type: ignore[arg-type]
with_options.using(atomic=True)  # type: ignore[arg-type]
with_options.using(isolation="process")  # type: ignore[arg-type]
with_options.using(memory_mb=500)  # type: ignore[arg-type]

assert_type(with_options.s(1), Call[str])
with_options.s("1")  # type: ignore[arg-type]


def many() -> Iterator[Call[object]]:
    yield with_options.s(1)
    yield bare.s(2, b="x")


assert_type(with_options.enqueue_many(many()), list[str])
assert_type(with_options.enqueue_many([with_options.s(1), bare.s(2)]), list[str])
with_options.enqueue_many([with_options.enqueue(1)])  # type: ignore[list-item]

# Settings

assert_type(Options("default").max_in_flight, int)
assert_type(Options("default").timeout_seconds, float | None)
assert_type(Options("default").grace_seconds, float)
assert_type(Options("default").labels, frozenset[str])
assert_type(Options("default").resources, Mapping[str, float])
assert_type(Options("default").requires("mail"), Requires | None)
assert_type(Options("default", lease_seconds=60).renew_seconds, float)
with_options.using(depends_on=[bare.enqueue(1), "12", 12], after_failure=True).enqueue(1)
with_options.using(depends_on=12)  # type: ignore[arg-type]
with_options.using(after_failure="yes")  # type: ignore[arg-type]
task(depends_on=[1])  # type: ignore[call-overload]

# What runs in order

assert_type(chain(bare.s(1), group([bare.s(2)])).enqueue(), list[JobResult])
assert_type(group([bare.s(1)]).then(bare.s(2), after_failure=True), Flow)
chain(bare)  # type: ignore[arg-type]
group([bare.enqueue(1)])  # type: ignore[list-item]
