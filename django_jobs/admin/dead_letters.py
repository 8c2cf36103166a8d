"""The dead letters: what broke, and the two things to do about it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from django_jobs.admin.cells import job_url
from django_jobs.admin.filters import DeadTaskFilter, QueueFilter
from django_jobs.admin.jobs import JobAdmin
from django_jobs.models import DeadLetter, Job


@admin.register(DeadLetter)
class DeadLetterAdmin(JobAdmin):
    """The dead among the jobs; the page of each is the job's own."""

    list_display = ("letter", "short_task", "place", "attempts", "moment")
    list_display_links = None
    list_filter = (QueueFilter, DeadTaskFilter)
    actions = ("requeue_selected", "purge_selected")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may view jobs may view the dead ones."""
        return bool(request.user.has_perm("django_jobs.view_job"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the dead jobs."""
        return super().get_queryset(request).filter(state="dead")

    @admin.display(description=gettext_lazy("job"))
    def letter(self, job: Job) -> SafeString:
        """The id, leading to the job's page."""
        return format_html('<a href="{}">{}</a>', job_url(job.pk, self.admin_site), job.pk)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Lead to the job's page, which stays when the job is no longer dead."""
        return HttpResponseRedirect(job_url(object_id, self.admin_site))
