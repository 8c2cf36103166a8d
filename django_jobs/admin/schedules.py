"""The schedules: their list, the page of each, and the verbs on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import ListFilter
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin import schedule_cells as cells
from django_jobs.admin import schedule_page
from django_jobs.admin.aliases import job_aliases, jobs_database
from django_jobs.admin.bounded import time_limit
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.admin.schedule_figures import Settings, complete, firing_backends, standing
from django_jobs.admin.schedule_list import BackendFilter, ScheduleChangeList, StandingFilter
from django_jobs.admin.schedule_page import DisableForm, job_namer, may_disable, may_run
from django_jobs.admin.schedule_warnings import of_one
from django_jobs.admin.verbs import actor_of
from django_jobs.exceptions import Refused
from django_jobs.models import Schedule
from django_jobs.operations.schedules import disable_schedule, enable_schedule, run_schedule
from django_jobs.tasks.ids import is_id


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    """Every entry of cron that a worker has written down."""

    list_display = ("entry", "timing", "next_run", "last_run", "rules", "verbs")
    list_filter: ClassVar[tuple[type[ListFilter], ...]] = (StandingFilter, BackendFilter)
    ordering = ("backend", "name")
    search_fields = ("name", "task")
    search_help_text = gettext_lazy("A part of the name or of the task")
    change_list_template = "admin/django_jobs/schedule/list.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the verbs."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        verbs = {"disable": self.disable_view, "enable": self.enable_view, "run": self.run_view}
        own = [
            path(f"<int:pk>/{verb}/", self.admin_site.admin_view(view), name=f"{name}_{verb}")
            for verb, view in verbs.items()
        ]
        return [*own, *super().get_urls()]

    # The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, with the database's time."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return rows

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that reads the rest too."""
        return ScheduleChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find schedules by a part of their name or task; the table is small."""
        term = search_term.strip()
        found = Q(name__icontains=term) | Q(task__icontains=term)
        return queryset.filter(found) if term else queryset, False

    @admin.display(description=gettext_lazy("schedule"))
    def entry(self, schedule: Schedule) -> SafeString:
        """The name, with its task, and its backend where there are several."""
        several = len(job_aliases()) > 1 or schedule.backend != "default"
        lines = [schedule.task, *([schedule.backend] if several else [])]
        below = format_html_join("", cells.QUIET, ((line,) for line in lines))
        return format_html("{}", schedule.name) + below

    @admin.display(description=gettext_lazy("when"))
    def timing(self, schedule: Any) -> SafeString:
        """When it is due, in words where that is certain."""
        return cells.timing(schedule)

    @admin.display(description=gettext_lazy("next run"))
    def next_run(self, schedule: Any) -> SafeString:
        """Whether it fires, and when next; or who says that it does not."""
        return cells.prospect(schedule)

    @admin.display(description=gettext_lazy("last run"))
    def last_run(self, schedule: Any) -> SafeString | str:
        """Its last job, how late that was, and the last occurrence without one."""
        return cells.history(schedule, schedule.job)

    @admin.display(description=gettext_lazy("rules"))
    def rules(self, schedule: Schedule) -> SafeString:
        """What becomes of what was missed, and of what comes while its last job is live."""
        return cells.rules(schedule)

    @admin.display(description="", empty_value="")
    def verbs(self, schedule: Any) -> SafeString:
        """The buttons; they post the form that the list is in."""
        return format_html_join(
            " ", '<button type="submit" class="button" formaction="{}">{}'
            '<span class="visually-hidden"> {}</span></button>',
            ((each.url, each.title, schedule.name) for each in schedule.buttons),
        )  # fmt: skip

    # The page of one

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one schedule; there is no form to post."""
        self.demand_look(request)
        try:
            with time_limit(jobs_database()):
                context = self._shown(request, unquote(object_id))
        except OperationalError as error:
            self.tell_if_stopped(request, error)
            return HttpResponseRedirect(self.own_url("changelist"))
        if context is None:
            return self._unknown(request)
        return TemplateResponse(request, "admin/django_jobs/schedule/page.html", context)

    def _shown(self, request: HttpRequest, pk: str) -> dict[str, Any] | None:
        schedule, settings = self._find(request, pk), Settings()
        if schedule is None:
            return None
        database = jobs_database()
        complete([schedule], settings, database=database)
        title = _("Schedule %s") % schedule.name
        return {
            **self.page_context(request, original=schedule.name, title=title),
            **schedule_page.context(request, schedule, site=self.admin_site, database=database),
            "may_view_jobs": request.user.has_perm("django_jobs.view_job"),
            "warnings": list(of_one(schedule, settings, firing_backends(database))),
        }

    def _find(self, request: HttpRequest, pk: object) -> Any:
        text = str(pk)
        return self.get_queryset(request).filter(pk=int(text)).first() if is_id(text) else None

    def _unknown(self, request: HttpRequest) -> HttpResponse:
        self.message_user(request, _("There is no such schedule."), messages.WARNING)
        return HttpResponseRedirect(self.own_url("changelist"))

    # Verbs

    def _chosen(
        self, request: HttpRequest, pk: int, may: Callable[[HttpRequest], bool]
    ) -> tuple[Any, HttpResponse | None]:
        """Return the schedule that a verb is for, or the answer of why there is none."""
        if request.method != "POST":
            return None, HttpResponseNotAllowed(["POST"])
        if not may(request):
            raise PermissionDenied
        schedule = self._find(request, pk)
        if schedule is None:
            return None, self._unknown(request)
        if standing(schedule) == "removed":
            text = _("The schedule %s is no longer in the settings of the workers; nothing was "
                     "changed.") % schedule.name  # fmt: skip
            self.message_user(request, text, messages.ERROR)
            return None, self._back(schedule)
        return schedule, None

    def _back(self, schedule: Any) -> HttpResponse:
        return HttpResponseRedirect(schedule_page.page_url(schedule.pk, self.admin_site))

    def _tell(self, request: HttpRequest, schedule: Any, text: str, level: int) -> HttpResponse:
        """Say what happened and when it is due next, on its page."""
        now = self._find(request, schedule.pk)
        complete([now], Settings(), database=jobs_database())
        words = " ".join(filter(None, (text, cells.next_words(now))))
        self.message_user(request, words, level)
        return self._back(schedule)

    def disable_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask why, then let no worker fire it."""
        schedule, answer = self._chosen(request, pk, may_disable)
        if answer is not None:
            return answer
        form = DisableForm(request.POST) if "asked" in request.POST else DisableForm()
        if not form.is_valid() or not self._disable(request, schedule, form):
            return self._ask(request, schedule, form)
        text = _("The schedule %s is disabled: no worker fires it until somebody enables it. "
                 "Its jobs go on.")  # fmt: skip
        self.message_user(request, text % schedule.name, messages.SUCCESS)
        return self._back(schedule)

    def _disable(self, request: HttpRequest, schedule: Any, form: DisableForm) -> bool:
        """Do what the form says; a refusal becomes an error of the form."""
        try:
            disable_schedule(
                schedule.name, actor=actor_of(request), reason=form.cleaned_data["reason"],
                backend=schedule.backend, database=jobs_database(),
            )  # fmt: skip
        except Refused as error:
            form.add_error(None, str(error))
            return False
        return True

    def _ask(self, request: HttpRequest, schedule: Any, form: DisableForm) -> HttpResponse:
        """Show what disabling means, and ask for its reason."""
        complete([schedule], Settings(), database=jobs_database())
        title = _("Disable the schedule %s") % schedule.name
        context = {
            **self.page_context(request, original=schedule.name, title=title),
            "schedule": schedule,
            "state": cells.state(schedule),
            "next": cells.next_run(schedule),
            "last": cells.last_run(schedule, job_namer(request, self.admin_site)),
            "form": form,
            "action": self.own_url("disable", schedule.pk),
            "back": schedule_page.page_url(schedule.pk, self.admin_site),
        }
        return TemplateResponse(request, "admin/django_jobs/schedule/disable.html", context)

    def enable_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Let it fire again."""
        schedule, answer = self._chosen(request, pk, may_disable)
        if answer is not None:
            return answer
        try:
            enabled = enable_schedule(
                schedule.name, actor=actor_of(request), backend=schedule.backend,
                database=jobs_database(),
            )  # fmt: skip
        except Refused as error:
            self.message_user(request, str(error), messages.ERROR)
            return self._back(schedule)
        text = _("The schedule %s is enabled.") if enabled else _(
            "The schedule %s was not disabled."
        )  # fmt: skip
        level = messages.SUCCESS if enabled else messages.WARNING
        return self._tell(request, schedule, text % schedule.name, level)

    def run_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Enqueue a job for it now."""
        schedule, answer = self._chosen(request, pk, may_run)
        if answer is not None:
            return answer
        try:
            made = run_schedule(
                schedule.name, actor=actor_of(request), backend=schedule.backend,
                database=jobs_database(),
            )  # fmt: skip
        except Refused as error:
            self.message_user(request, str(error), messages.ERROR)
            return self._back(schedule)
        text = _("Job %(job)d is enqueued for the schedule %(name)s.")
        named = {"job": made, "name": schedule.name}
        return self._tell(request, schedule, text % named, messages.SUCCESS)
