"""What stands in one cell of a list, so that it can be read without its heading."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.admin import AdminSite
from django.db.models import Case, DateTimeField, OuterRef, Subquery, Value, When
from django.db.models.functions import Greatest, Least
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from django_jobs.admin.moments import duration, marked
from django_jobs.models import Event

PATH_CHARS = 160
NBSP = "\u00a0"


def requeued_at() -> Case:
    """Return an expression for when a job was last requeued; null: never."""
    told = Event.objects.filter(job_id=OuterRef("pk"), kind=Event.Kind.REQUEUED)
    latest = Subquery(told.order_by("-id").values("at")[:1])
    return Case(When(life__gt=1, then=latest), output_field=DateTimeField())


def due(column: str = "run_after") -> Case:
    """Return an expression for a time in a job's row, no further off than Python can hold."""
    moments = (Value(datetime(year, 1, 2, tzinfo=UTC)) for year in (2, 9998))
    first, last = moments
    bounded = Least(Greatest(column, first), last)
    known = When(**{f"{column}__isnull": False}, then=bounded)
    return Case(known, output_field=DateTimeField())


def ready_since(job: Any) -> datetime:
    """Return since when a ready job waits: enqueued, due or requeued, whichever came last."""
    moments: list[datetime | None] = [job.enqueued_at, job.due, job.requeued_at]
    return max(moment for moment in moments if moment is not None)


def moment_cell(job: Any) -> SafeString | str:
    """Return the one time that matters in a job's state, in words that say what it is."""
    at, words = _moment(job)
    if at is None:
        return ""
    length = duration(abs((job.now - at).total_seconds()))
    return marked(at, words % length.replace(" ", NBSP))


def _moment(job: Any) -> tuple[datetime | None, str]:
    match job.state:
        case "running":
            return job.last_attempted_at, _("running for %s")
        case "scheduled":
            late = job.due and job.due <= job.now
            return job.due, _("was due %s ago") if late else _("due in %s")
        case "ready":
            return ready_since(job), _("ready for %s")
        case _ if job.finished_at:
            return job.finished_at, _("ended %s ago")
        case _:
            return job.enqueued_at, _("enqueued %s ago")


def task_cell(path: str, error: str, schedule: str = "") -> SafeString:
    """Return the name of a task, with its module, its schedule and its error below."""
    module, _dot, name = Truncator(path).chars(PATH_CHARS).rpartition(".")
    html = format_html('{}<br><span class="quiet">{}</span>', name, module)
    if schedule:
        html += format_html('<br><span class="quiet">{}</span>', schedule)
    if not error:
        return html
    return html + format_html('<span class="jobs-error jobs-short">{}</span>', error)


def labelled(value: object, word: str) -> SafeString:
    """Return a value with the word that is shown where there is no room for a heading."""
    return format_html('{}<span class="jobs-label"> {}</span>', value, word)


def job_url(pk: object, site: AdminSite) -> str:
    """Return the address of a job's page."""
    return reverse("admin:django_jobs_job_change", args=[pk], current_app=site.name)


def worker_link(pk: UUID, name: str, *, site: AdminSite) -> SafeString:
    """Return the name of a worker, leading to its page."""
    url = reverse("admin:django_jobs_worker_change", args=[pk], current_app=site.name)
    return format_html('<a href="{}">{}</a>', url, name)


def worker_namer(request: HttpRequest, site: AdminSite) -> Callable[[UUID, str], str]:
    """Return how to name a worker to this user: with a link to those who may follow it."""
    if request.user.has_perm("django_jobs.view_worker"):
        return partial(worker_link, site=site)
    return lambda _pk, name: name
