"""From wall clocks to instants and back: what changes of the clocks do to a schedule.

croniter is asked about times without a zone. The rules of zones are here:

- an occurrence in an hour that the clocks skip is due once, the moment after;
- one in an hour that they repeat is due once, the first time, unless the schedule leaves the
  hour open: then both hours are hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter

from django_jobs.cron.grammar import Fields, parse

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(seconds=1)
RESOLUTION = timedelta(microseconds=1)
YEARS = 50  # between two occurrences: a 29 February may be eight years away


@dataclass(frozen=True, slots=True)
class Repeated:
    """A stretch of local times that the clocks show twice: from ``start``, before ``end``."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule in a time zone; instants are aware, in UTC, and whole minutes apart."""

    fields: Fields
    zone: ZoneInfo

    @classmethod
    def read(cls, text: str, zone: ZoneInfo) -> Cron:
        """Return the schedule that ``text`` says; raise ``InvalidSchedule``."""
        return cls(parse(text), zone)

    def after(self, instant: datetime) -> datetime:
        """Return the first occurrence after ``instant``."""
        local, is_second = self._local(instant)
        repeated = self._repeated(local)
        if repeated is None:
            return self._due(self._next(local))
        if is_second:
            return self._after_in_second(local, repeated)
        found = self._next(local)
        if self.fields.is_every_hour and found >= repeated.end:
            again = self._next(repeated.start - INSTANT)
            if again < repeated.end:
                return self._second(again)
        return self._due(found)

    def _after_in_second(self, local: datetime, repeated: Repeated) -> datetime:
        if not self.fields.is_every_hour:  # which all were due the first time
            return self._due(self._next(repeated.end - INSTANT))
        found = self._next(local)
        return self._second(found) if found < repeated.end else self._due(found)

    def latest(self, instant: datetime) -> datetime:
        """Return the last occurrence that is not after ``instant``."""
        local, is_second = self._local(instant)
        repeated = self._repeated(local)
        found = self._previous(local)
        if repeated is None:
            return self._last(found)
        if is_second:
            if self.fields.is_every_hour and found >= repeated.start:
                return self._second(found)
            found = self._previous(repeated.end - INSTANT)
        return self._due(found) if found >= repeated.start else self._last(found)

    def before(self, instant: datetime) -> datetime:
        """Return the last occurrence before ``instant``."""
        return self.latest(instant - RESOLUTION)

    def upcoming(self, instant: datetime, count: int) -> list[datetime]:
        """Return the next occurrences after ``instant``."""
        found: list[datetime] = []
        while len(found) < count:
            found.append(self.after(found[-1] if found else instant))
        return found

    # wall clocks

    def _local(self, instant: datetime) -> tuple[datetime, bool]:
        """Return what the clocks show, and whether they show it for the second time."""
        local = instant.astimezone(self.zone)
        return local.replace(tzinfo=None, fold=0, microsecond=0), bool(local.fold)

    def _offset(self, local: datetime, *, fold: int) -> timedelta:
        found = local.replace(tzinfo=self.zone, fold=fold).utcoffset()
        assert found is not None
        return found

    def _due(self, local: datetime) -> datetime:
        """Return when a local time comes; for one that is skipped, when the clocks are set."""
        before, later = self._offset(local, fold=0), self._offset(local, fold=1)
        if later > before:
            return self._set_between(_at(local, later), _at(local, before))
        return _at(local, before)

    def _second(self, local: datetime) -> datetime:
        """Return when a local time comes for the second time."""
        return _at(local, self._offset(local, fold=1))

    def _last(self, local: datetime) -> datetime:
        """Return when a local time comes for the last time that counts."""
        if self.fields.is_every_hour and self._repeated(local) is not None:
            return self._second(local)
        return self._due(local)

    def _repeated(self, local: datetime) -> Repeated | None:
        before, later = self._offset(local, fold=0), self._offset(local, fold=1)
        if later >= before:
            return None
        moment = self._set_between(_at(local, before), _at(local, later))
        end = (moment + before).replace(tzinfo=None)
        return Repeated(end - (before - later), end)

    def _set_between(self, low: datetime, high: datetime) -> datetime:
        """Return the moment at which the clocks are set: after ``low``, not after ``high``.

        Both are whole seconds, as that moment is.
        """
        old = low.astimezone(self.zone).utcoffset()
        while high - low > INSTANT:
            middle = low + timedelta(seconds=(high - low) // INSTANT // 2)
            if middle.astimezone(self.zone).utcoffset() == old:
                low = middle
            else:
                high = middle
        return high

    # what croniter says of local times

    def _next(self, local: datetime) -> datetime:
        return self._asked(local).get_next(datetime)

    def _previous(self, local: datetime) -> datetime:
        """Return the last one up to ``local``; they are whole minutes."""
        whole = local.replace(second=0, microsecond=0)
        return self._asked(whole + MINUTE).get_prev(datetime)

    def _asked(self, local: datetime) -> croniter[datetime]:
        return croniter(str(self.fields), local, max_years_between_matches=YEARS)


def _at(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=UTC)
