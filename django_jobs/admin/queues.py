"""The queues: their list, the page of each, and the verbs on them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.db.models import QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from django_jobs.admin import queue_page
from django_jobs.admin.aliases import job_aliases, jobs_database
from django_jobs.admin.bounded import time_limit
from django_jobs.admin.cells import job_url, worker_namer
from django_jobs.admin.queue_figures import Name, figures, figures_of
from django_jobs.admin.queue_page import PauseForm, may_pause, named
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.admin.verbs import actor_of
from django_jobs.exceptions import Refused
from django_jobs.models import Queue
from django_jobs.operations.pause import pause
from django_jobs.operations.resume import resume


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """Every queue is listed and has a page; most have no row of their own."""

    list_display = ("name",)
    list_filter = ()
    ordering = ("backend", "name")
    change_list_template = "admin/django_jobs/queue/list.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the page of a queue, and its verbs."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view
        own = [
            path("page/", view(self.page_view), name=f"{name}_page"),
            path("pause/", view(self.pause_view), name=f"{name}_pause"),
            path("resume/", view(self.resume_view), name=f"{name}_resume"),
        ]
        return [*own, *super().get_urls()]

    # Pages

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows by name; what they say comes with the figures."""
        return super().get_queryset(request).only("backend", "name")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show all queues with their figures."""
        rows = self._rows(request) if self.has_view_permission(request) else []
        own = {"queues": rows, **_allowed(request)}
        return super().changelist_view(request, {**own, **(extra_context or {})})

    def _rows(self, request: HttpRequest) -> list[dict[str, Any]] | None:
        """Return the rows of the list; None when that took too long."""
        try:
            found = figures()
        except OperationalError as error:
            self.tell_if_stopped(request, error)
            return None
        said = {each.alias: each for each in job_aliases()}
        return [queue_page.row(each, said.get(each.backend), self.admin_site) for each in found]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Lead from the row of a queue to its page."""
        self.demand_look(request)
        row = self.get_object(request, object_id)
        if row is None:
            return self._nameless(request)
        return HttpResponseRedirect(self._page_url(Name(row.backend, row.name)))

    def page_view(self, request: HttpRequest) -> HttpResponse:
        """Show one queue."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        name = named(request.GET)
        if name is None:
            return self._nameless(request)
        try:
            with time_limit(jobs_database()):
                context = self._shown(request, name)
        except OperationalError as error:
            self.tell_if_stopped(request, error)
            return HttpResponseRedirect(self.own_url("changelist"))
        return TemplateResponse(request, "admin/django_jobs/queue/page.html", context)

    def _shown(self, request: HttpRequest, name: Name) -> dict[str, Any]:
        link = worker_namer(request, self.admin_site)
        return {
            **self.page_context(request, original=name.queue, title=_("Queue %s") % name.queue),
            **queue_page.context(name, link=link, site=self.admin_site, database=jobs_database()),
            **_allowed(request),
        }

    def _page_url(self, name: Name) -> str:
        return queue_page.page_url(name, self.admin_site)

    def _nameless(self, request: HttpRequest) -> HttpResponse:
        self.message_user(request, _("That names no queue."), messages.WARNING)
        return HttpResponseRedirect(self.own_url("changelist"))

    # Verbs

    def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not may_pause(request):
            raise PermissionDenied
        return None

    def pause_view(self, request: HttpRequest) -> HttpResponse:
        """Ask why and until when, then pause a queue."""
        if refusal := self._refusal(request):
            return refusal
        name = named(request.POST)
        if name is None:
            return self._nameless(request)
        form = PauseForm(request.POST) if "asked" in request.POST else PauseForm()
        if not form.is_valid() or not self._pause(request, name, form):
            return self._ask(request, name, form)
        text = _("The queue %s is paused; the jobs that run go on.") % name.queue
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self._page_url(name))

    def _pause(self, request: HttpRequest, name: Name, form: PauseForm) -> bool:
        """Do what the form says; a refusal becomes an error of the form."""
        try:
            pause(
                name.queue,
                backend=name.backend,
                actor=actor_of(request),
                reason=form.cleaned_data["reason"],
                until=form.cleaned_data["until"],
                database=jobs_database(),
            )
        except (Refused, ValueError) as error:
            form.add_error(None, str(error))
            return False
        return True

    def _ask(self, request: HttpRequest, name: Name, form: PauseForm) -> HttpResponse:
        """Show what a pause would mean, and ask for its reason."""
        try:
            queue = figures_of(name)
        except OperationalError as error:
            self.tell_if_stopped(request, error)
            return HttpResponseRedirect(self.own_url("changelist"))
        context = {
            **self.page_context(
                request, original=name.queue, title=_("Pause the queue %s") % name.queue
            ),
            "queue": queue,
            "form": form,
            "action": self.own_url("pause"),
            "back": self._page_url(name),
        }
        return TemplateResponse(request, "admin/django_jobs/queue/pause.html", context)

    def resume_view(self, request: HttpRequest) -> HttpResponse:
        """Resume a queue, and go back to where the button was."""
        if refusal := self._refusal(request):
            return refusal
        name = named(request.POST)
        if name is None:
            return self._nameless(request)
        try:
            resumed = resume(
                name.queue,
                backend=name.backend,
                actor=actor_of(request),
                database=jobs_database(),
            )
        except (Refused, ValueError) as error:
            self.message_user(request, str(error), messages.ERROR)
        else:
            text = _("The queue %s is resumed.") if resumed else _("The queue %s was not paused.")
            level = messages.SUCCESS if resumed else messages.WARNING
            self.message_user(request, text % name.queue, level)
        return HttpResponseRedirect(self._back(request, name))

    def _back(self, request: HttpRequest, name: Name) -> str:
        """Return the page of the job where the button was, or that of the queue."""
        job = request.POST.get("job", "")
        if not (job.isascii() and job.isdigit()):
            return self._page_url(name)
        return job_url(job, self.admin_site)


def _allowed(request: HttpRequest) -> dict[str, bool]:
    return {
        "may_pause": may_pause(request),
        "may_view_jobs": request.user.has_perm("django_jobs.view_job"),
    }
