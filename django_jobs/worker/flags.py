"""From the words of a command line to options, each judged before anything is claimed."""

from __future__ import annotations

import re
from typing import Any

from django_jobs.checks import check_tasks_app
from django_jobs.compat import task_backends
from django_jobs.conf import Options, backend_fault, problems, queue_fault, shown
from django_jobs.tasks import JobTask
from django_jobs.worker.worker import Worker

LONGEST_NAME = 100
WHOLE = re.compile(r"[+-]?[0-9]+")


class UsageError(Exception):
    """A flag or setting that cannot be used; the message names it and the cure."""


def number(text: str | None) -> object:
    """Return the number that ``text`` writes, or the text itself for the check to refuse."""
    if text is None:
        return None
    if WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text) if text.isascii() and "_" not in text else text
    except ValueError:
        return text


def count(flag: str, text: str | None) -> int | None:
    """Return a positive whole number, None when the flag was not given."""
    value = number(text)
    if value is None:
        return None
    if not isinstance(value, int) or value < 1:
        msg = f"{flag} is {shown(value)}. Set it to a whole number of at least 1."
        raise UsageError(msg)
    return value


def label(text: str | None) -> str | None:
    """Return the name that operators see, None when the flag was not given."""
    if text is None:
        return None
    if not text.strip() or not text.isprintable():
        msg = f"--name is {shown(text)}. Set it to printable text, or leave it out."
        raise UsageError(msg)
    if len(text) > LONGEST_NAME:
        msg = f"--name has {len(text)} characters. Set it to at most {LONGEST_NAME}."
        raise UsageError(msg)
    return text


def require_alias(alias: str) -> str:
    """Return ``alias`` if its backend is ours."""
    fault = backend_fault(alias)
    if fault is not None:
        raise UsageError(fault)
    backend = task_backends[alias]
    if not issubclass(backend.task_class, JobTask):
        msg = (
            f"TASKS[{alias!r}]['BACKEND'] is {type(backend).__name__}, which needs no jobworker."
            " Set it to 'django_jobs.backend.JobsBackend'."
        )
        raise UsageError(msg)
    return alias


def require_sound(alias: str, **overrides: Any) -> None:
    """Raise UsageError for all that is wrong with the settings and flags together."""
    found = [f"{error.msg} {error.hint}" for error in check_tasks_app()]
    found += [f"{problem.message} {problem.hint}" for problem in problems(alias, **overrides)]
    if found:
        raise UsageError("\n".join(found))


def queue_flags(given: list[str] | None, *, alias: str) -> dict[str, dict[str, int]] | None:
    """Return queue → slots and weight for ``--queue NAME[:WEIGHT]``, in the order given.

    Slots come from the settings, and the weight where the flag names none.
    """
    if not given:
        return None
    require_sound(alias)
    options = Options(alias)
    queues: dict[str, dict[str, int]] = {}
    for word in given:
        name, colon, weight = word.partition(":")
        _require_served(name, options)
        said = options.queues.get(name)
        entry = {"weight": said.weight if said else 1}
        if said and said.slots is not None:
            entry["slots"] = said.slots
        if colon:
            entry["weight"] = _weight(word, weight)
        queues[name] = entry
    return queues


def _require_served(name: str, options: Options) -> None:
    fault = queue_fault(name, options)
    if fault is not None:
        msg = f"--queue {shown(name)} {fault}"
        raise UsageError(msg)


def _weight(word: str, weight: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,2}|1000", weight):
        msg = f"--queue {word!r:.120}: the weight must be a whole number from 1 to 1,000."
        raise UsageError(msg)
    return int(weight)


def build(given: dict[str, Any]) -> Worker:
    """Return the worker that flags and settings describe; raise UsageError for bad ones."""
    alias = require_alias(given["backend"])
    queues = queue_flags(given["queue"], alias=alias)
    overrides = {
        "max_in_flight": number(given["max_in_flight"]),
        "lease_seconds": number(given["lease"]),
        "drain_seconds": number(given["drain_timeout"]),
        "listen": False if given["no_listen"] else None,
        "queues": queues,
    }
    require_sound(alias, **overrides)
    return Worker(
        Options(alias, **overrides),
        name=label(given["name"]),
        queues=None if queues is None else list(queues),
        once=given["once"],
        max_jobs=count("--max-jobs", given["max_jobs"]),
    )
