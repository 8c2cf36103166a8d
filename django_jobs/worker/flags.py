"""From the words of a command line to options, each judged before anything is claimed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django_jobs.checks import check_tasks_app
from django_jobs.compat import task_backends
from django_jobs.conf import Options, backend_fault, problems, queue_fault, shown
from django_jobs.exceptions import InvalidRequires
from django_jobs.operations.scheduled_job import schedule_faults
from django_jobs.placement import (
    LABEL,
    check_host,
    checked_amounts,
    checked_labels,
    is_amount,
    written,
)
from django_jobs.tasks import JobTask
from django_jobs.worker.worker import Worker

WHOLE = re.compile(r"[+-]?[0-9]{1,100}")  # Python refuses to read thousands of them


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


def count(flag: str, text: str | None, *, most: int | None = None) -> int | None:
    """Return a positive whole number up to ``most``, None when the flag was not given."""
    value = number(text)
    if value is None:
        return None
    if not isinstance(value, int) or value < 1 or (most is not None and value > most):
        bounds = "of at least 1" if most is None else f"from 1 to {most}"
        msg = f"{flag} is {shown(value)}. Set it to a whole number {bounds}."
        raise UsageError(msg)
    return value


def host(text: str | None) -> str | None:
    """Return the name that operators see and jobs may require, None when it was not given."""
    try:
        return None if text is None else check_host(text, "--name")
    except InvalidRequires as error:
        raise UsageError(str(error)) from None


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


def label_flags(given: list[str] | None, *, alias: str) -> frozenset[str] | None:
    """Return the labels of the settings and those of ``--label``."""
    if not given:
        return None
    require_sound(alias)
    return Options(alias).labels.union(*map(_label, given))


def _label(word: str) -> frozenset[str]:
    try:
        return checked_labels([word], "--label")
    except InvalidRequires as error:
        other = f" An amount is a resource: say --resource {word}." if "=" in word else ""
        msg = f"--label is {shown(word)}. {error.cure}{other}"
        raise UsageError(msg) from None


def resource_flags(given: list[str] | None, *, alias: str) -> dict[str, float] | None:
    """Return name → amount of the settings and of ``--resource NAME=AMOUNT``, which goes first."""
    if not given:
        return None
    require_sound(alias)
    said: dict[str, float] = {}
    for word in given:
        for name, amount in _resource(word).items():
            if said.setdefault(name, amount) != amount:
                both = f"{written(said[name])} and {written(amount)}"
                msg = f"--resource {name} is given as {both}. Take one of them out."
                raise UsageError(msg)
    return {**Options(alias).resources, **said}


def _resource(word: str) -> Mapping[str, float]:
    name, equals, text = word.partition("=")
    other = f" For a label say --label {name}." if LABEL.fullmatch(name) else ""
    if not equals:
        msg = f"--resource is {shown(word)}. Set it to NAME=AMOUNT, such as memory_mb=8000.{other}"
        raise UsageError(msg)
    amount: Any = number(text)
    try:
        return checked_amounts({name: amount}, "--resource")
    except InvalidRequires as error:
        cure = error.cure + (other if is_amount(amount) else "")
        msg = f"--resource is {shown(word)}. {cure}"
        raise UsageError(msg) from None


def _require_schedules(options: Options) -> None:
    faults = list(schedule_faults(options))
    if faults:
        cure = "Correct the entry or its task, or leave the schedules to others with --no-cron."
        raise UsageError("\n".join([*faults, cure]))


def build(given: dict[str, Any]) -> Worker:
    """Return the worker that flags and settings describe; raise UsageError for bad ones."""
    alias = require_alias(given["backend"])
    queues = queue_flags(given["queue"], alias=alias)
    overrides = {
        "max_in_flight": number(given["max_in_flight"]),
        "lease_seconds": number(given["lease"]),
        "drain_seconds": number(given["drain_timeout"]),
        "timeout_seconds": number(given["timeout"]),
        "listen": False if given["no_listen"] else None,
        "queues": queues,
        "labels": label_flags(given["label"], alias=alias),
        "resources": resource_flags(given["resource"], alias=alias),
    }
    require_sound(alias, **overrides)
    options = Options(alias, **overrides)
    if not given["no_cron"]:
        _require_schedules(options)
    return Worker(
        options,
        name=host(given["name"]),
        queues=None if queues is None else list(queues),
        once=given["once"],
        cron=not given["no_cron"],
        max_jobs=count("--max-jobs", given["max_jobs"]),
    )
