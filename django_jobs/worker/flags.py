"""From the words of a command line to options, each judged before anything is claimed."""

from __future__ import annotations

import re
from typing import Any

from django_jobs.compat import InvalidTaskBackend, task_backends
from django_jobs.conf import Options, did_you_mean, problems
from django_jobs.tasks import JobTask

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
        msg = f"{flag} is {text!r}. Give a whole number of at least 1."
        raise UsageError(msg)
    return value


def require_alias(alias: str) -> str:
    """Return ``alias`` if its backend is ours."""
    try:
        backend = task_backends[alias]
    except InvalidTaskBackend as error:
        known = did_you_mean(alias, task_backends.settings)
        msg = f"--backend {alias!r}: {error}{known}"
        raise UsageError(msg) from None
    if not issubclass(backend.task_class, JobTask):
        msg = (
            f"TASKS[{alias!r}]['BACKEND'] is {type(backend).__name__}, which needs no jobworker."
            " Set it to 'django_jobs.backend.JobsBackend'."
        )
        raise UsageError(msg)
    return alias


def require_sound(alias: str, **overrides: Any) -> None:
    """Raise UsageError for all that is wrong with the settings and flags together."""
    found = [f"{problem.message} {problem.hint}" for problem in problems(alias, **overrides)]
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
    names = options.queue_names
    if names and name not in names:
        msg = (
            f"--queue {name!r:.120} is not in TASKS[{options.alias!r}]['QUEUES'], so nothing is"
            f" enqueued there.{did_you_mean(name, names)}"
        )
        raise UsageError(msg)


def _weight(word: str, weight: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,2}|1000", weight):
        msg = f"--queue {word!r:.120}: the weight is a whole number from 1 to 1000."
        raise UsageError(msg)
    return int(weight)
