"""What a schedule says, in words where they are certain, and its moments in its own zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from django.utils.dates import WEEKDAYS
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.cron import Cron, Fields, InvalidSchedule, parse

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

MISSED = {
    "late": gettext_lazy("it came too late to be made up for"),
    "overlap": gettext_lazy("its last job was still live"),
    "unique": gettext_lazy("a live job had its unique key"),
}
CATCH_UP = {
    "run_once": gettext_lazy("one job for all that was missed"),
    "skip": gettext_lazy("none: what was missed is left out"),
    "all": gettext_lazy("a job for each that was missed"),
}
OVERLAP = {
    "allow": gettext_lazy("allowed: its last job may still be live"),
    "skip": gettext_lazy("left out while its last job is live"),
}
WORKDAYS = frozenset(range(1, 6))  # Sunday is 0


def said(words: Mapping[str, _StrPromise], code: str) -> str:
    """Return the words for a code; of one that another version wrote, the code as it is."""
    return str(words[code]) if code in words else code


@dataclass(frozen=True, slots=True)
class Reading:
    """What this process makes of a row's schedule and zone."""

    cron: Cron | None
    fault: str = ""  # why it cannot be read: another version has written it

    @property
    def zone(self) -> ZoneInfo | None:
        """The zone in which its moments are told."""
        return self.cron.zone if self.cron else None

    @property
    def words(self) -> str:
        """The schedule in words; empty: the five fields say it best."""
        return in_words(self.cron.fields) if self.cron else ""


def read(schedule: str, timezone: str) -> Reading:
    """Read a row's schedule as a firing does."""
    try:
        fields = parse(schedule)
    except InvalidSchedule as error:
        return Reading(None, str(error))
    try:
        return Reading(Cron(fields, ZoneInfo(timezone)))
    except (TypeError, ValueError, OSError, KeyError):
        return Reading(None, _("there is no time zone “%s” here") % timezone)


def in_words(fields: Fields) -> str:
    """Say it when it is one of the plain kinds; else nothing."""
    if fields.month is not None:
        return ""
    if fields.hour is None and fields.day is None and fields.weekday is None:
        return _every_hour(fields.minute)
    return _at_one_time(fields)


def _every_hour(minutes: frozenset[int] | None) -> str:
    if minutes is None:
        return _("every minute")
    if len(minutes) == 1:
        return _("every hour at minute %d") % min(minutes)
    step = 60 // len(minutes)
    if minutes == frozenset(range(0, 60, step)):
        return ngettext("every %d minute", "every %d minutes", step) % step
    return ""


def _at_one_time(fields: Fields) -> str:
    minutes, hours = fields.minute or frozenset(), fields.hour or frozenset()
    if len(minutes) != 1 or len(hours) != 1:
        return ""
    time = f"{min(hours):02d}:{min(minutes):02d}"
    match fields.day, fields.weekday:
        case None, None:
            return _("every day at %s") % time
        case None, weekdays if weekdays == WORKDAYS:
            return _("Monday to Friday at %s") % time
        case None, frozenset() as weekdays if len(weekdays) == 1:
            named = {"day": _name_of(min(weekdays)), "time": time}
            return _("every %(day)s at %(time)s") % named
        case frozenset() as days, None if len(days) == 1:
            numbered = {"day": min(days), "time": time}
            return _("on day %(day)d of the month at %(time)s") % numbered
        case _:
            return ""


def _name_of(weekday: int) -> str:
    return str(WEEKDAYS[(weekday - 1) % 7])  # there Monday is 0


def in_zone(moment: datetime, zone: ZoneInfo | None) -> str:
    """Say a moment by the clocks of a zone; their abbreviation tells an hour from its repeat."""
    local = moment.astimezone(zone or UTC)
    seconds = f":{local:%S}" if local.second else ""
    return f"{date_format(local, 'D')} {local:%Y-%m-%d %H:%M}{seconds} {local:%Z}"
