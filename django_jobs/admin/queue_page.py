"""One queue: its addresses, what its page shows, and the form that pauses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import admin
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin.aliases import job_aliases, slots
from django_jobs.admin.badges import health_badge
from django_jobs.admin.bounded import in_time
from django_jobs.admin.explained import Hosts, hosts
from django_jobs.admin.queue_figures import Figures, Name, figures_of
from django_jobs.admin.verbs import Button
from django_jobs.conf import DEFAULT_SLOTS, InvalidOption, Options
from django_jobs.operations.explain import explain_queue
from django_jobs.operations.explain.explanation import QueueExplanation, Situation

LONGEST = 500  # characters of a name that anybody may ask about


def may_pause(request: HttpRequest) -> bool:
    """Tell whether the user may pause and resume queues, which takes looking at them."""
    return bool(request.user.has_perms(("django_jobs.pause_queue", "django_jobs.view_queue")))


def named(data: QueryDict) -> Name | None:
    """Return the queue that an address or a form names; None when it can be none."""
    name = Name(data.get("backend", ""), data.get("queue", ""))
    if not all(part and "\0" not in part and len(part) <= LONGEST for part in name):
        return None
    return name


def page_url(name: Name, site: admin.AdminSite) -> str:
    """Return the address of a queue's page."""
    return _with(_address("queue_page", site), backend=name.backend, queue=name.queue)


def shown_to(request: HttpRequest, name: Name, site: admin.AdminSite) -> SafeString | str:
    """Return a queue's name, leading to its page those who may look at it."""
    if not request.user.has_perm("django_jobs.view_queue"):
        return name.queue
    return format_html('<a href="{}">{}</a>', page_url(name, site), name.queue)


def ready_url(name: Name, site: admin.AdminSite) -> str:
    """Return the address of the list of its ready jobs."""
    return _with(_address("job_changelist", site), state="ready", queue=name.queue)


def _with(url: str, **query: str) -> str:
    return f"{url}?{urlencode(query)}"


def _address(name: str, site: admin.AdminSite) -> str:
    return reverse(f"admin:django_jobs_{name}", current_app=site.name)


def resume_button(name: Name, site: admin.AdminSite, *, job: int | None = None) -> Button:
    """Return the button that resumes a queue; ``job``: it leads back to that job."""
    back = (("job", str(job)),) if job is not None else ()
    fields = (*_fields(name), *back)
    title = _("Resume the queue") if back else _("Resume")
    return Button(title=title, url=_address("queue_resume", site), fields=fields, named=True)


def buttons(queue: Figures, site: admin.AdminSite) -> list[Button]:
    """Return what can be done about a queue as it is."""
    name = Name(queue.backend, queue.name)
    if queue.paused:
        return [resume_button(name, site)]
    url = _address("queue_pause", site)
    return [Button(title=_("Pause…"), url=url, fields=_fields(name))]


def _fields(name: Name) -> tuple[tuple[str, str], ...]:
    return (("backend", name.backend), ("queue", name.queue))


def row(queue: Figures, said: Options | None, site: admin.AdminSite) -> dict[str, Any]:
    """Return what list and page say of a queue; ``said``: the settings of its backend."""
    name = Name(queue.backend, queue.name)
    own = queue.own_slots
    return {
        "queue": queue,
        "slots": own if said is None or own is not None else slots(said, queue.name),
        "default_slots": None if said is None else _default_slots(said),
        "page": page_url(name, site),
        "jobs": ready_url(name, site),
        "buttons": buttons(queue, site),
    }


def _default_slots(said: Options) -> int:
    """Return the slots of a queue of which nothing is said, of a worker that serves others too."""
    try:
        return min(DEFAULT_SLOTS, said.max_in_flight)
    except InvalidOption:  # a check tells it
        return DEFAULT_SLOTS


def context(
    name: Name, *, link: Callable[[UUID, str], str], site: admin.AdminSite, database: str
) -> dict[str, Any]:
    """Return what the page shows; ``link`` makes a worker's name lead to it."""
    figures = figures_of(name)
    said = {each.alias: each for each in job_aliases()}.get(name.backend)
    explanation = explained(name, database=database)
    return {
        "row": row(figures, said, site),
        "badge": health_badge("unserved") if _is_unserved(explanation) else figures.health,
        "verdict": explanation.verdict if explanation else None,
        "hosts": hosts(explanation.hosts, link=link, now=figures.now) if explanation else Hosts(),
    }


def _is_unserved(explanation: QueueExplanation | None) -> bool:
    """Whether the sentence beside the badge says so: a page must not say "ok" of that."""
    if explanation is None:
        return False
    return explanation.verdict.situation == Situation.QUEUE_NOT_SERVED


def explained(name: Name, *, database: str) -> QueueExplanation | None:
    """Return how a queue fares; None when that took too long."""
    return in_time(lambda: explain_queue(name.backend, name.queue, database=database), database)


class PauseForm(forms.Form):
    """Why, and until when."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=500,
        help_text=gettext_lazy("Whoever finds the queue paused reads it."),
    )
    until = forms.DateTimeField(
        label=gettext_lazy("Until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Say of which time zone the time is."""
        super().__init__(*args, **kwargs)
        text = _("Then it goes on by itself; empty: when somebody resumes it. Time zone: %s.")
        self.fields["until"].help_text = text % timezone.get_current_timezone_name()
