"""Calls that follow each other: chains, groups, and what comes after a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from asgiref.sync import sync_to_async

from django_jobs.compat import InvalidTask
from django_jobs.tasks.job_task import Call, JobTask
from django_jobs.tasks.result import JobResult


class Plan:
    """The calls of a flow in an order in which each stands after its parents."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.calls: list[Call[Any]] = []
        self.after: list[tuple[int, ...]] = []

    def add(self, call: Call[Any], after: tuple[int, ...]) -> tuple[int, ...]:
        """Put a call last; return its place, for those that follow it."""
        self.calls.append(call)
        self.after.append(after)
        return (len(self.calls) - 1,)


class Flow(ABC):
    """Calls to be enqueued in one transaction, tied by dependencies alone."""

    @abstractmethod
    def lay(self, plan: Plan, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add the calls to ``plan``, behind ``after``; return what others must follow."""

    def then(self, *steps: Step, after_failure: bool = False) -> Flow:
        """Return this flow with more behind it; a call is made when all before has succeeded.

        ``after_failure=True`` makes it whatever way they have ended.
        """
        behind = [_whatever(step) for step in steps] if after_failure else steps
        return Chain([self, *behind])

    def enqueue(self) -> list[JobResult]:
        """Enqueue all calls or none; return their results in the order they were written."""
        plan = Plan()
        self.lay(plan, ())
        if not plan.calls:
            return []
        backend = _backend_of(plan.calls)
        if not getattr(backend, "is_of_django_jobs", False):  # such as Django's immediate one
            made = [call.task.enqueue(*call.args, **call.kwargs) for call in plan.calls]
            return cast("list[JobResult]", made)
        results: list[JobResult] = backend.enqueue_flow(plan.calls, plan.after)
        return results

    async def aenqueue(self) -> list[JobResult]:
        """Enqueue from a coroutine."""
        return await sync_to_async(self.enqueue)()


Step = Call[Any] | Flow


class Chain(Flow):
    """One step after the other."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Hold steps that have been checked."""
        self.steps = steps

    def lay(self, plan: Plan, after: tuple[int, ...]) -> tuple[int, ...]:
        """Each step follows the one before."""
        for step in self.steps:
            after = _lay(step, plan, after)
        return after


class Group(Flow):
    """Steps beside each other."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Hold steps that have been checked."""
        self.steps = steps

    def lay(self, plan: Plan, after: tuple[int, ...]) -> tuple[int, ...]:
        """All follow the same, and what comes next follows all; an empty group is nothing."""
        ends = [place for step in self.steps for place in _lay(step, plan, after)]
        return tuple(dict.fromkeys(ends)) or after


def chain(*steps: Step) -> Chain:
    """Return a flow in which each call is made when the one before has succeeded."""
    return Chain(_checked(steps, "chain"))


def group(steps: Iterable[Step]) -> Group:
    """Return a flow of calls that wait for nothing of each other."""
    return Group(_checked(steps, "group"))


def _checked(steps: Iterable[Step], name: str) -> list[Step]:
    found = list(steps)
    for place, step in enumerate(found):
        if not isinstance(step, (Call, Flow)):
            raise TypeError(
                f"Item {place} of {name}() is {step!r:.120}, no call; make it with task.s(…), "
                "chain(…) or group([…])."
            )
    return found


def _lay(step: Step, plan: Plan, after: tuple[int, ...]) -> tuple[int, ...]:
    return step.lay(plan, after) if isinstance(step, Flow) else plan.add(step, after)


def _whatever(step: Step) -> Step:
    """Return the step so that it is made whatever way those before it end."""
    if isinstance(step, Call) and isinstance(step.task, JobTask):
        return replace(step, task=step.task.using(after_failure=True))
    raise TypeError(
        f"after_failure=True goes with calls of tasks of django_jobs, not {step!r:.120}"
    )


def _backend_of(calls: Sequence[Call[Any]]) -> Any:
    aliases = sorted({call.task.backend for call in calls})
    if len(aliases) > 1:
        raise InvalidTask(
            f"The calls are for the backends {', '.join(map(repr, aliases))}: jobs wait only for "
            "jobs of their own; make the calls with task.using(backend=…).s(…)."
        )
    return calls[0].task.get_backend()
