"""What list and page say of one schedule, a cell each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_jobs.admin.badges import schedule_badge, state_badge
from django_jobs.admin.cells import labelled
from django_jobs.admin.moments import duration, marked, when
from django_jobs.admin.schedule_figures import Made, is_due, standing
from django_jobs.admin.schedule_words import CATCH_UP, MISSED, OVERLAP, in_zone, said

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

QUIET = '<br><span class="quiet">{}</span>'
Named = Callable[[int], str]  # the id of a job → how to name it


def timing(schedule: Any) -> SafeString:
    """The schedule in words, where there are some, with its fields and its zone."""
    words = schedule.reading.words
    exact = f"{schedule.schedule} {schedule.timezone}"
    if not words:
        code = format_html("<code>{}</code>", schedule.schedule)
        return code + format_html(QUIET, schedule.timezone)
    return format_html("{}", words) + format_html(QUIET, exact)


def next_run(schedule: Any) -> SafeString | str:
    """When it is due next, from now and by the clocks of its zone."""
    if standing(schedule) != "enabled":
        return ""
    if schedule.next_at is None:
        return _("a worker will say")
    exact = format_html(QUIET, in_zone(schedule.next_at, schedule.reading.zone))
    if not is_due(schedule):
        return when(schedule.next_at, now=schedule.now) + exact
    late = (schedule.now - schedule.next_at).total_seconds()
    words = marked(schedule.next_at, _("for %s") % duration(late))
    return format_html("{} {}{}", schedule_badge("due"), words, exact)


def next_words(schedule: Any) -> str:
    """Say in a message when it is due next."""
    if standing(schedule) != "enabled" or schedule.next_at is None:
        return ""
    exact = in_zone(schedule.next_at, schedule.reading.zone)
    if is_due(schedule):
        return _("It is due now, for %s.") % exact
    length = duration((schedule.next_at - schedule.now).total_seconds())
    return _("Its next run is in %(length)s, %(exact)s.") % {"length": length, "exact": exact}


def last_run(schedule: Any, job: Named) -> SafeString | str:
    """The last job, how it fares, and how late it was enqueued."""
    if schedule.last_job is None:
        return _("never")
    made: Made | None = schedule.made
    name = job(schedule.last_job)
    if made is None:
        html = format_html("{} {}", name, _("purged"))
    else:
        html = format_html("{} {}", state_badge(made.state), name)
        if made.occurrence is None:
            html += format_html(QUIET, _("run by an operator"))
    return html + _fired(schedule)


def _fired(schedule: Any) -> SafeString:
    """Say when it last fired by itself, and how late that was."""
    if schedule.fired_at is None:
        return SafeString("")
    told = {"ago": when(schedule.fired_at, now=schedule.now), "late": lateness(schedule)}
    words = _("fired {ago}, {late} late") if told["late"] else _("fired {ago}")
    return format_html('<br><span class="quiet jobs-fired">{}</span>', format_html(words, **told))


def lateness(schedule: Any) -> str:
    """Say how long after its occurrence it last fired."""
    if schedule.fired_at is None or schedule.last_at is None:
        return ""
    return duration(max((schedule.fired_at - schedule.last_at).total_seconds(), 0.0))


def prospect(schedule: Any) -> SafeString:
    """Whether it fires, and when next; or who says that it does not."""
    coming = next_run(schedule)
    if is_due(schedule):
        return format_html("{}", coming)
    return state(schedule) + (format_html("<br>{}", coming) if coming else SafeString(""))


def history(schedule: Any, job: Named) -> SafeString | str:
    """The last job, how late it was, and the last occurrence without one."""
    told = last_run(schedule, job)
    if schedule.missed_at is None:
        return told
    why = said(MISSED, schedule.missed_why or "")
    words = _("missed {moment}: {why}")
    at = marked(schedule.missed_at, in_zone(schedule.missed_at, schedule.reading.zone))
    return format_html("{}", told) + _told(words, moment=at, why=why)


def rules(schedule: Any) -> SafeString:
    """The two options, as the settings have them; what they mean is in their titles."""
    catch_up = _option(CATCH_UP, schedule.catch_up, _("catch-up"))
    overlap = _option(OVERLAP, schedule.overlap, _("overlap"))
    return format_html("{}<br>{}", catch_up, overlap)


def _option(words: Mapping[str, _StrPromise], code: str, name: str) -> SafeString:
    value = format_html('<span title="{}">{}</span>', said(words, code), code)
    return labelled(value, name)


def missed(schedule: Any) -> SafeString | str:
    """The last occurrence without a job, and why there is none."""
    if schedule.missed_at is None:
        return ""
    why = said(MISSED, schedule.missed_why or "")
    at = marked(schedule.missed_at, in_zone(schedule.missed_at, schedule.reading.zone))
    return at + format_html(QUIET, why)


def state(schedule: Any) -> SafeString:
    """Whether it fires; if not, who says so, since when and why."""
    return schedule_badge(standing(schedule)) + _held_off(schedule)


def _held_off(schedule: Any) -> SafeString:
    match standing(schedule):
        case "removed":
            since = when(schedule.gone_at, now=schedule.now)
            return _told(_("out of the settings, {since}"), since=since)
        case "disabled":
            by = schedule.disabled_by or _("somebody")
            since = when(schedule.disabled_at, now=schedule.now)
            told = _told(_("by {by}, {since}"), by=by, since=since)
            if not schedule.disabled_reason:
                return told
            return told + _told(_("“{reason}”"), reason=schedule.disabled_reason)
        case "off":
            return _told(_("switched off in the settings"))
        case _:
            return SafeString("")


def _told(words: str, **values: str) -> SafeString:
    return format_html(QUIET, format_html(words, **values) if values else words)
