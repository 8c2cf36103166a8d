"""When a schedule is due: five fields, read in a time zone. Pure: no clock, no database."""

from __future__ import annotations

from django_jobs.cron.grammar import NICKNAMES, Fields, InvalidSchedule, parse
from django_jobs.cron.occurrences import Cron

__all__ = ["NICKNAMES", "Cron", "Fields", "InvalidSchedule", "parse"]
