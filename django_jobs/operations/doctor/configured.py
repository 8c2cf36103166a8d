"""Can the settings of the alias be used?"""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import ERROR

from django_jobs.compat import task_backends
from django_jobs.operations.doctor.finding import Exam, Finding


def settings(exam: Exam) -> Iterator[Finding]:
    """Look at what the system checks say of the alias; the command itself runs none."""
    found = task_backends[exam.backend].check()
    for message in found:
        level = "error" if message.level >= ERROR else "warning"
        facts = {"id": message.id}
        yield Finding("settings", level, message.msg, message.hint or "", facts)  # type: ignore[arg-type]
    if not found:
        yield Finding("settings", "ok", f"The settings of {exam.backend!r} can be used.")
