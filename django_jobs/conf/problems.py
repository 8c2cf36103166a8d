"""All that is wrong with the settings of an alias, with the cure of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django_jobs.conf.options import OPTION_NAMES, Options
from django_jobs.conf.values import InvalidOption, did_you_mean

KEYS = ("BACKEND", "QUEUES", "OPTIONS")


class Problem(NamedTuple):
    """One fault, as a system check says it."""

    id: str
    message: str
    hint: str


def problems(alias: str, **overrides: Any) -> Iterator[Problem]:
    """Yield each problem of ``alias`` once; ``overrides`` stand in for settings."""
    options = Options(alias, **overrides)
    yield from dict.fromkeys([*_unknown_keys(options), *_wrong_values(options)])


def _unknown_keys(options: Options) -> Iterator[Problem]:
    where = f"TASKS[{options.alias!r}]"
    for key in options.params:
        if key not in KEYS:
            yield _unknown(f"{where}[{key!r}]", _cure_of_key(key))
    try:
        known = list(options.options)
    except InvalidOption:  # told with the values
        return
    for key in known:
        if key not in OPTION_NAMES:
            cure = f"Take it out.{did_you_mean(key, OPTION_NAMES)}"
            yield _unknown(f"{where}['OPTIONS'][{key!r}]", cure)


def _cure_of_key(key: object) -> str:
    if str(key).lower() in OPTION_NAMES:
        return f"Move it into OPTIONS, as {str(key).lower()!r}."
    near = did_you_mean(str(key), [known.lower() for known in KEYS])
    return f"Take it out.{near.upper().replace('DID YOU MEAN', 'Did you mean')}"


def _unknown(where: str, cure: str) -> Problem:
    return Problem("django_jobs.E002", f"{where} is no setting of django_jobs.", cure)


def _wrong_values(options: Options) -> Iterator[Problem]:
    for name in ("queue_names", *OPTION_NAMES):
        try:
            getattr(options, name)
        except InvalidOption as error:
            for each in (error, *error.others):
                yield Problem(f"django_jobs.{each.code}", each.fault, each.cure)
