"""One schedule: its address, who may do what, and what its page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin import schedule_cells as cells
from django_jobs.admin.badges import state_badge
from django_jobs.admin.cells import job_url
from django_jobs.admin.filters import made_by
from django_jobs.admin.moments import absolute, duration, marked, took, when
from django_jobs.admin.schedule_figures import (
    Made,
    newest_jobs,
    standing,
)
from django_jobs.admin.schedule_words import CATCH_UP, OVERLAP, in_zone, read, said
from django_jobs.admin.verbs import Button
from django_jobs.conf.cron import CronEntry
from django_jobs.models import Schedule

SHORT = 60  # characters of a name in a list
UPCOMING = 5  # occurrences that the page names


def may_disable(request: HttpRequest) -> bool:
    """Tell whether the user may disable and enable, which takes looking at schedules."""
    wanted = ("django_jobs.disable_schedule", "django_jobs.view_schedule")
    return bool(request.user.has_perms(wanted))


def may_run(request: HttpRequest) -> bool:
    """Tell whether the user may run a schedule now, which takes looking at them."""
    return bool(request.user.has_perms(("django_jobs.run_schedule", "django_jobs.view_schedule")))


def page_url(pk: object, site: admin.AdminSite) -> str:
    """Return the address of a schedule's page."""
    return _address("schedule_change", site, pk)


def jobs_url(backend: str, name: str, site: admin.AdminSite) -> str:
    """Return the address of the list of its jobs."""
    return f"{_address('job_changelist', site)}?{urlencode({'schedule': made_by(backend, name)})}"


def _address(name: str, site: admin.AdminSite, *args: object) -> str:
    return reverse(f"admin:django_jobs_{name}", args=args, current_app=site.name)


def shown_to(
    request: HttpRequest, job: Any, site: admin.AdminSite, *, database: str
) -> SafeString | str:
    """Say of a job which schedule has made it, and for when; with a link to who may follow."""
    if job.schedule is None:
        return ""
    rows = Schedule.objects.using(database).filter(backend=job.backend, name=job.schedule)
    row = rows.first()
    name: SafeString | str = job.schedule
    if row and request.user.has_perm("django_jobs.view_schedule"):
        name = format_html('<a href="{}">{}</a>', page_url(row.pk, site), name)
    if job.occurrence is None:
        return format_html(_("{name}, run by an operator"), name=name)
    zone = read(row.schedule, row.timezone).zone if row else None
    moment = marked(job.occurrence, in_zone(job.occurrence, zone))
    return format_html(_("{name}, for {moment}"), name=name, moment=moment)


def named_in_list(job: Any, site: admin.AdminSite) -> SafeString | str:
    """Say in a list which schedule has made a job; it leads to all that it has made."""
    if job.schedule is None:
        return ""
    url = jobs_url(job.backend, job.schedule, site)
    name = format_html('<a href="{}">{}</a>', url, Truncator(job.schedule).chars(SHORT))
    if job.occurrence is None:
        return format_html(_("schedule {name}, run by an operator"), name=name)
    moment = marked(job.occurrence, absolute(job.occurrence))
    return format_html(_("schedule {name}, for {moment}"), name=name, moment=moment)


# Verbs


def buttons(request: HttpRequest, schedule: Any, site: admin.AdminSite) -> list[Button]:
    """Return what this user may do about a schedule as it is."""
    now = standing(schedule)
    if now == "removed":
        return []
    found = []
    if may_disable(request) and now == "disabled":
        found += [_button(_("Enable"), "enable", schedule, site)]
    elif may_disable(request):
        found += [_button(_("Disable…"), "disable", schedule, site)]
    if may_run(request) and schedule.entry is not None:
        found += [_button(_("Run now"), "run", schedule, site)]
    return found


def _button(title: str, verb: str, schedule: Any, site: admin.AdminSite) -> Button:
    url = _address(f"schedule_{verb}", site, schedule.pk)
    return Button(title=title, url=url, named=verb == "enable")


class DisableForm(forms.Form):
    """Why."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"), max_length=500,
        help_text=gettext_lazy("Whoever finds the schedule disabled reads it."),
    )  # fmt: skip


# The page


@dataclass(frozen=True, slots=True)
class Line:
    """One job that the schedule has made."""

    job: str
    badge: SafeString
    occurrence: str
    enqueued: SafeString | str
    late: str
    took: str


@dataclass(frozen=True, slots=True)
class Coming:
    """One occurrence that is to come."""

    at: datetime
    moment: SafeString | str
    exact: str


def context(
    request: HttpRequest, schedule: Any, *, site: admin.AdminSite, database: str
) -> dict[str, Any]:
    """Return what the page shows, the warnings apart."""
    job = job_namer(request, site)
    made = newest_jobs(schedule, database=database)
    return {
        "schedule": schedule,
        "state": cells.state(schedule),
        "next": cells.next_run(schedule),
        "is_on": standing(schedule) == "enabled",
        "coming": coming(schedule),
        "facts": _facts(schedule, job),
        "lines": [_line(each, schedule, job) for each in made],
        "jobs": jobs_url(schedule.backend, schedule.name, site),
        "buttons": buttons(request, schedule, site),
    }


def job_namer(request: HttpRequest, site: admin.AdminSite) -> Callable[[int], str]:
    """Return how to name a job to this user: with a link to those who may follow it."""
    if not request.user.has_perm("django_jobs.view_job"):
        return str
    return partial(_job_link, site=site)


def _job_link(pk: int, *, site: admin.AdminSite) -> SafeString:
    return format_html('<a href="{}">{}</a>', job_url(pk, site), pk)


def coming(schedule: Any) -> list[Coming]:
    """Return the next occurrences, which a disabled one would have too."""
    cron = schedule.reading.cron
    if cron is None or standing(schedule) == "removed":
        return []
    return [
        Coming(at, when(at, now=schedule.now), in_zone(at, cron.zone))
        for at in cron.upcoming(schedule.now, UPCOMING)
    ]


def _facts(schedule: Any, job: Callable[[int], str]) -> list[tuple[str, Any]]:
    zone = schedule.reading.zone
    facts = [
        (_("Task"), schedule.task),
        (_("Schedule"), format_html("<code>{}</code>", schedule.schedule)),
        (_("In words"), schedule.reading.words),
        (_("Time zone"), schedule.timezone),
        (_("Queue"), schedule.queue or _("the task's own")),
        (_("Catch-up"), _catch_up(schedule)),
        (_("Overlap"), said(OVERLAP, schedule.overlap)),
        (_("Backend"), schedule.backend),
        (_("Last fired for"), _at(schedule.last_at, zone)),
        (_("Last job"), cells.last_run(schedule, job)),
        (_("Last missed"), cells.missed(schedule)),
        (_("This version since"), when(schedule.since, now=schedule.now)),
    ]
    return [(name, value) for name, value in facts if value != ""]


def _at(moment: datetime | None, zone: Any) -> SafeString | str:
    return "" if moment is None else marked(moment, in_zone(moment, zone))


def _catch_up(schedule: Any) -> str:
    """Say what becomes of what was missed, with the bounds where this process knows them."""
    words = said(CATCH_UP, schedule.catch_up)
    entry: CronEntry | None = schedule.entry
    if entry is None or entry.digest != schedule.digest:
        return words
    match schedule.catch_up:
        case "all":
            return _("%(words)s, %(most)d at most") % {
                "words": words,
                "most": entry.catch_up_limit,
            }
        case "skip":
            told = {"words": words, "grace": duration(entry.grace)}
            return _("%(words)s when it is more than %(grace)s late") % told
        case _:
            return words


def _line(made: Made, schedule: Any, job: Callable[[int], str]) -> Line:
    return Line(
        job=job(made.pk),
        badge=state_badge(made.state),
        occurrence=(
            _("run by an operator")
            if made.occurrence is None
            else in_zone(made.occurrence, schedule.reading.zone)
        ),
        enqueued=when(made.enqueued_at, now=made.now),
        late="" if made.late is None else duration(made.late),
        took="" if made.seconds is None else took(made.seconds),
    )
