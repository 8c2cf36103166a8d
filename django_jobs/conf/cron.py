"""What the settings say of schedules, in ``OPTIONS["cron"]``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings

from django_jobs import payloads
from django_jobs.conf.values import (
    InvalidOption,
    did_you_mean,
    is_queue_name,
    seconds,
    shown,
    whole,
)
from django_jobs.cron import Cron, Fields, InvalidSchedule, parse
from django_jobs.exceptions import InvalidPayload

CODE = "E014"
KEYS = (
    "task", "schedule", "timezone", "args", "kwargs", "queue", "priority",
    "catch_up", "catch_up_limit", "grace", "overlap", "enabled",
)  # fmt: skip
CATCH_UP = ("run_once", "skip", "all")
OVERLAP = ("allow", "skip")
MOST_AT_ONCE = 1000
LONGEST_NAME = 100
LONGEST_GRACE = 30 * 86_400.0
OF_THE_HOST = ("localtime", "posixrules", "Factory")  # zones that differ from host to host

CatchUp = Literal["run_once", "skip", "all"]
Overlap = Literal["allow", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CronEntry:
    """One schedule: which task is enqueued when, and what becomes of what was missed."""

    name: str
    task: str  # dotted path
    schedule: str  # as it is written
    cron: Cron
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    queue: str | None = None  # None: the task's own, as is the priority
    priority: int | None = None
    catch_up: CatchUp = "run_once"
    catch_up_limit: int = 100  # jobs that "all" makes up for at once
    grace: float = 60.0  # seconds by which "skip" lets an occurrence be late
    overlap: Overlap = "allow"
    enabled: bool = True

    @property
    def timezone(self) -> str:
        """The name of its zone."""
        return str(self.cron.zone.key)

    @property
    def digest(self) -> str:
        """What tells this entry from one of another version, in 32 characters."""
        said = [getattr(self, name) for name in self.__slots__ if name != "cron"]
        text = json.dumps([*said, self.timezone], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def cron_entries(value: object, where: str) -> dict[str, CronEntry]:
    """Return name → entry, once all have been judged; the error knows each fault."""
    if not isinstance(value, Mapping):
        cure = "Set it to {'nightly': {'task': 'shop.tasks.report', 'schedule': '0 3 * * *'}}."
        raise InvalidOption(where, value, cure, code=CODE)
    found: dict[str, CronEntry] = {}
    faults: list[InvalidOption] = []
    for name, said in value.items():
        try:
            found[name] = _entry(name, said, f"{where}[{name!r:.120}]")
        except InvalidOption as fault:
            faults.append(fault)
    if faults:
        faults[0].others = faults[1:]
        raise faults[0]
    return found


def _entry(name: object, said: object, where: str) -> CronEntry:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        cure = f"Name it by a text of 1 to {LONGEST_NAME} printable characters."
        raise InvalidOption(where, said, cure, code=CODE)
    if not isinstance(said, Mapping):
        cure = "Set it to {'task': 'shop.tasks.report', 'schedule': '0 3 * * *'}."
        raise InvalidOption(where, said, cure, code=CODE)
    _require_keys(said, where)
    part = _Part(said, where)
    return CronEntry(
        name=name,
        task=part.text("task"),
        schedule=part.text("schedule"),
        cron=Cron(part.schedule(), part.zone()),
        args=part.arguments("args", [], list | tuple),
        kwargs=part.arguments("kwargs", {}, Mapping),
        queue=part.queue(),
        priority=part.whole_or_none("priority", -100, 100),
        catch_up=part.one_of("catch_up", CATCH_UP),
        catch_up_limit=part.whole("catch_up_limit", 100, 1, MOST_AT_ONCE),
        grace=part.seconds("grace", 60.0),
        overlap=part.one_of("overlap", OVERLAP),
        enabled=part.switch("enabled"),
    )


def _require_keys(said: Mapping[object, object], where: str) -> None:
    for key in said:
        if key not in KEYS:
            cure = f"Take out {key!r}.{did_you_mean(key, KEYS)}"
            raise InvalidOption(where, said, cure, code=CODE)
    for key in ("task", "schedule"):
        if key not in said:
            raise InvalidOption(where, said, f"Add {key!r}.", code=CODE)


class _Part:
    """Reads the values of one entry; each fault says where it stands."""

    def __init__(self, said: Mapping[Any, Any], where: str) -> None:
        self._said = said
        self._where = where

    def _invalid(self, key: str, cure: str) -> InvalidOption:
        return InvalidOption(self._at(key), self._said.get(key), cure, code=CODE)

    def _at(self, key: str) -> str:
        return f"{self._where}[{key!r}]"

    def text(self, key: str) -> str:
        value = self._said[key]
        if not isinstance(value, str) or not value:
            raise self._invalid(key, "Set it to a text.")
        return value

    def schedule(self) -> Fields:
        try:
            return parse(self._said["schedule"])
        except InvalidSchedule as error:
            cure = f"Write five fields, such as '0 3 * * *', or an @name: {error}."
            raise self._invalid("schedule", cure) from None

    def zone(self) -> ZoneInfo:
        value = self._said.get("timezone", settings.TIME_ZONE or "UTC")
        with suppress(TypeError, ValueError, OSError, KeyError):  # it has no error of its own
            if value not in OF_THE_HOST:
                return ZoneInfo(value)
        near = did_you_mean(value, available_timezones())
        cure = f"Set it to the name of a zone, such as 'Europe/Rome'.{near}"
        raise InvalidOption(self._at("timezone"), value, cure, code=CODE)

    def arguments(self, key: str, default: Any, kind: Any) -> Any:
        value = self._said.get(key, default)
        if not isinstance(value, kind):
            raise self._invalid(key, f"Set it to a {'list' if key == 'args' else 'dictionary'}.")
        try:
            text = payloads.dumps(
                list(value) if key == "args" else dict(value),
                where=key, limit=1024 * 1024, setting="its limit",
            )  # fmt: skip
        except InvalidPayload as error:
            raise self._invalid(key, f"Set it to what JSON can say: {error}") from None
        return payloads.loads(text)

    def queue(self) -> str | None:
        value = self._said.get("queue")
        if value is not None and not is_queue_name(value):
            raise self._invalid("queue", "Set it to the name of a queue.")
        return value

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        return whole(self._said.get(key, default), self._at(key), least, most, code=CODE)

    def whole_or_none(self, key: str, least: int, most: int) -> int | None:
        return None if self._said.get(key) is None else self.whole(key, 0, least, most)

    def seconds(self, key: str, default: float) -> float:
        value = self._said.get(key, default)
        return seconds(value, self._at(key), 1.0, LONGEST_GRACE, code=CODE)

    def one_of(self, key: str, known: tuple[str, ...]) -> Any:
        value = self._said.get(key, known[0])
        if value not in known:
            listed = ", ".join(map(repr, known[:-1])) + f" or {known[-1]!r}"
            raise self._invalid(key, f"Set it to {listed}, not {shown(value)}.")
        return value

    def switch(self, key: str) -> bool:
        value = self._said.get(key, True)
        if not isinstance(value, bool):
            raise self._invalid(key, "Set it to True or False.")
        return value
