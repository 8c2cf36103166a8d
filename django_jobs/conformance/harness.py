"""How the conformance tests enqueue, run and wait."""

# The assertions are unittest's, for whoever runs these tests without pytest.
# ruff: noqa: PT009

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from django.test import TransactionTestCase, override_settings

from django_jobs.compat import task_backends
from django_jobs.conformance import tasks
from django_jobs.conformance.recorder import Recorder
from django_jobs.tasks import AnyResult, AnyTask

if TYPE_CHECKING:
    Base = TransactionTestCase
else:
    Base = object


class Harness(Base):
    """Sets TASKS to the backend under test, twice, and notes every signal."""

    backend: str
    options: ClassVar[dict[str, Any]] = {}
    alias = "conformance"
    patience = 10.0  # seconds until a test gives up waiting

    def run_jobs(self, alias: str) -> None:
        """Run what is due under ``alias``, a job at a time, in this process; then return."""
        raise NotImplementedError

    def setUp(self) -> None:
        super().setUp()
        params = {"BACKEND": self.backend, "QUEUES": ["default"], "OPTIONS": self.options}
        override = override_settings(TASKS={"default": params, self.alias: params})
        override.enable()
        self.addCleanup(override.disable)
        self.enterContext(tasks.fresh_runs())
        self.signals = self.enterContext(Recorder())

    def using(self, task: AnyTask, /, **changes: Any) -> AnyTask:
        """Return ``task`` for the alias under test."""
        return task.using(backend=self.alias, **changes)

    def run_to_the_end(self, task: AnyTask, /, *args: Any, **kwargs: Any) -> AnyResult:
        """Enqueue a call, run it with all its attempts, and return how it ended."""
        result = self.using(task).enqueue(*args, **kwargs)
        self.finish(result)
        return result

    def finish(self, result: AnyResult) -> None:
        """Run jobs until ``result`` and its last signal have come."""
        self.wait(lambda: self._is_finished(result), "the job did not finish")
        self.wait(lambda: self.signals.finished(result.id), "task_finished did not come")

    def wait(self, done: Callable[[], object], complaint: str) -> None:
        """Return when ``done()`` is true; fail after ``patience``."""
        deadline = time.monotonic() + self.patience
        while not done():
            self.assertLess(time.monotonic(), deadline, complaint)
            time.sleep(0.01)

    def _is_finished(self, result: AnyResult) -> bool:
        self.run_jobs(result.backend)
        result.refresh()
        return result.is_finished

    def reload(self, result: AnyResult) -> AnyResult:
        """Read a result anew, as another process would."""
        return task_backends[result.backend].get_result(result.id)

    def unchecked(self, task: AnyTask, **changes: Any) -> AnyTask:
        """Return ``task`` with ``changes`` that its own checks did not see."""
        new = self.using(task)
        for name, value in changes.items():
            object.__setattr__(new, name, value)
        return new

    def assert_same_fields(self, expected: AnyResult, got: AnyResult) -> None:
        """Compare what can change, field by field, for a complaint that names the field."""
        for name in {field.name for field in fields(expected)} - {"task"}:
            self.assertEqual(getattr(expected, name), getattr(got, name), name)
