"""What would help: a command line, or a button."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from django_jobs.compat import DEFAULT_TASK_BACKEND_ALIAS
from django_jobs.operations.explain.explanation import Remedy, Situation
from django_jobs.placement import Needs

S = Situation
REMEDIES: dict[Situation, Remedy] = {
    S.QUEUE_PAUSED: "resume",
    S.SCHEDULED: "run_now",
    S.RETRYING: "run_now",
    S.DEAD: "requeue",
    S.DROPPED: "requeue",
    S.CANCELLED: "requeue",
    S.EXPIRED: "requeue",
}
AUTOMATIC = ("os:", "arch:", "python:")  # labels that a worker finds itself


def command_for(
    blockers: Collection[Situation], *, backend: str, queue: str, needs: Needs | None
) -> str | None:
    """Return the line that starts one more worker that would do; None: none would help."""
    if not {S.QUEUE_NOT_SERVED, S.NO_WORKER_FITS, S.AT_CAPACITY} & set(blockers):
        return None
    if ":" in queue or needs is None:  # the flag would take a part of the name for a weight
        return None
    words = ["python", "manage.py", "jobworker", *_flag("--queue", queue)]
    words += [] if backend == DEFAULT_TASK_BACKEND_ALIAS else _flag("--backend", backend)
    words += _flags(needs)
    if not all(word.isprintable() for word in words):  # a terminal obeys some, quoted or not
        return None
    return shlex.join(words)


def automatic_labels(needs: Needs | None) -> list[str]:
    """Return the labels asked for that no flag should give: a worker says them itself."""
    labels = () if needs is None else needs.requires.labels
    return sorted(label for label in labels if label.startswith(AUTOMATIC))


def _flag(name: str, value: str) -> list[str]:
    """Return a flag whose value is never taken for another flag."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _flags(needs: Needs) -> list[str]:
    """Return what makes a worker offer what is asked for, as far as flags do."""
    asked = needs.requires
    words = [] if asked.host is None else _flag("--name", asked.host)
    for label in sorted(asked.labels):
        words += [] if label.startswith(AUTOMATIC) else ["--label", label]
    for name, amount in needs.amounts.items():
        words += ["--resource", f"{name}={amount}"]
    return words
