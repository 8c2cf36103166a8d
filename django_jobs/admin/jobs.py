"""The jobs: their list, and the page of each."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import ListFilter
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.db.models import F, QuerySet
from django.db.models.functions import Left, Now
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin import confirmation, job_page, limit_page, queue_page, schedule_page
from django_jobs.admin.aliases import jobs_database
from django_jobs.admin.badges import state_badge
from django_jobs.admin.bounded import MOST, time_limit
from django_jobs.admin.cells import (
    due,
    labelled,
    moment_cell,
    requeued_at,
    task_cell,
    worker_namer,
)
from django_jobs.admin.confirmation import ConfirmForm, Scope, unsealed
from django_jobs.admin.filters import QueueFilter, ScheduleFilter, StateFilter
from django_jobs.admin.progress import bar, marked_overdue, of_lease, progress_text
from django_jobs.admin.queue_figures import Name
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.admin.verbs import CANCEL, PURGE, REQUEUE, RUN, VERBS, Verb, perform
from django_jobs.models import Job
from django_jobs.tasks.ids import LARGEST_ID

# What the list shows: never the columns that may be large.
LISTED = (
    "task", "state", "queue", "priority", "attempt", "max_attempts",
    "enqueued_at", "last_attempted_at", "finished_at", "life", "backend", "schedule",
)  # fmt: skip
ERROR_CHARS = 120


def job_id(text: str) -> int | None:
    """Return the id that somebody typed; None when it can be none."""
    digits = text.strip().removeprefix("#")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(LARGEST_ID)):
        return None
    return int(digits) if 0 < int(digits) <= LARGEST_ID else None


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """The list is ordered by id and bounded; the page tells what happened and why."""

    list_display: tuple[str, ...] = (
        "number", "short_task", "badge", "place", "attempts", "moment",
    )  # fmt: skip
    list_filter: ClassVar[tuple[type[ListFilter], ...]] = (
        StateFilter, QueueFilter, ScheduleFilter,
    )  # fmt: skip
    ordering = ("-pk",)
    search_fields = ("pk",)
    search_help_text = gettext_lazy("The id of a job")
    actions: tuple[str, ...] = (
        "run_selected", "cancel_selected", "requeue_selected", "purge_selected",
    )  # fmt: skip

    # The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return jobs without their large columns, with the database's time."""
        error = Left("error", 2 * ERROR_CHARS)
        rows = super().get_queryset(request).only(*LISTED)
        more: dict[str, Any] = {"short_error": error, "requeued_at": requeued_at(), "due": due()}
        more |= {"said": of_lease(progress_text()), "timed_out_at": of_lease(F("timed_out_at"))}
        more |= {"occurrence": due("scheduled_for")}
        jobs: QuerySet[Any] = rows.annotate(now=Now(), **more)
        return jobs

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find one job by its id; any other search would scan the table."""
        if not search_term.strip():
            return queryset, False
        if (pk := job_id(search_term)) is not None:
            return queryset.filter(pk=pk), False
        text = _("“%.40s” is not the id of a job, and nothing else can be searched for.")
        self.message_user(request, text % search_term, messages.WARNING)
        return queryset.none(), False

    @admin.display(description=gettext_lazy("job"))
    def number(self, job: Job) -> str:
        """The id, as people copy it."""
        return str(job.pk)

    @admin.display(description=gettext_lazy("task"))
    def short_task(self, job: Any) -> SafeString:
        """The name of the task, its module, the schedule that made it, and the latest error."""
        made = schedule_page.named_in_list(job, self.admin_site)
        return task_cell(job.task, Truncator(job.short_error or "").chars(ERROR_CHARS), made)

    @admin.display(description=gettext_lazy("state"))
    def badge(self, job: Job) -> SafeString:
        """The state."""
        return state_badge(job.state)

    @admin.display(description=gettext_lazy("queue"))
    def place(self, job: Job) -> str:
        """The queue, with the priority where there is one."""
        return f"{job.queue} ({job.priority:+d})" if job.priority else job.queue

    @admin.display(description=gettext_lazy("attempt"))
    def attempts(self, job: Job) -> SafeString:
        """How many of its attempts have been used."""
        return labelled(f"{job.attempt}/{job.max_attempts}", _("attempts"))

    @admin.display(description=gettext_lazy("time"))
    def moment(self, job: Any) -> SafeString | str:
        """The one time that matters in this state; of one that runs, also how far it is."""
        over = marked_overdue(_("over its timeout")) if job.timed_out_at else ""
        lines = [(line,) for line in (moment_cell(job), over, bar(job.said, brief=True)) if line]
        return format_html_join(mark_safe("<br>"), "{}", lines)

    # The page of one job

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one job; there is no form to post."""
        self.demand_look(request)
        try:
            with time_limit(jobs_database()):
                context = self._shown(request, object_id)
        except OperationalError as error:
            self.tell_if_stopped(request, error)
            return HttpResponseRedirect(self.own_url("changelist"))
        if context is None:
            return self._gone(request, object_id)
        context |= extra_context or {}
        return TemplateResponse(request, "admin/django_jobs/job/page.html", context)

    def _shown(self, request: HttpRequest, object_id: str) -> dict[str, Any] | None:
        """Return what the page of a job shows; None: there is no such job."""
        database, pk = jobs_database(), job_id(unquote(object_id))
        job = pk and job_page.find(pk, database=database)
        if not job:
            return None
        site = self.admin_site
        queue = queue_page.shown_to(request, Name(job.backend, job.queue), site)
        try:
            context = job_page.context(
                job,
                link=worker_namer(request, site),
                queue=queue,
                limit=limit_page.shown_to(request, job.limit_key, site) if job.limit_key else "",
                schedule=schedule_page.shown_to(request, job, site, database=database),
                site=site,
                database=database,
            )
        except Job.DoesNotExist:  # purged this moment
            return None
        return {
            **self.page_context(request, original=job, title=_("Job %d") % job.pk),
            **context,
            "buttons": job_page.buttons(request, job, context["verdict"], site),
            "may_view_activity": request.user.has_perm("django_jobs.view_activity"),
        }

    def _gone(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = _("There is no job %.40s; it may have been purged.") % unquote(object_id)
        self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(self.own_url("changelist"))

    # Verbs

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run scheduled jobs now."""
        return RUN.allowed(request)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whether the user may cancel."""
        return CANCEL.allowed(request)

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Whether the user may requeue."""
        return REQUEUE.allowed(request)

    def has_purge_permission(self, request: HttpRequest) -> bool:
        """Whether the user may purge."""
        return PURGE.allowed(request)

    @admin.action(description=gettext_lazy("Run selected jobs now"), permissions=["run"])
    def run_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Let what was ticked wait for its time no longer."""
        return self._chosen(request, RUN, queryset)

    @admin.action(description=gettext_lazy("Cancel selected jobs…"), permissions=["cancel"])
    def cancel_selected(
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        """Ask, then cancel what was ticked."""
        return self._chosen(request, CANCEL, queryset)

    @admin.action(description=gettext_lazy("Requeue selected jobs"), permissions=["requeue"])
    def requeue_selected(
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        """Requeue what was ticked."""
        return self._chosen(request, REQUEUE, queryset)

    @admin.action(description=gettext_lazy("Purge selected jobs…"), permissions=["purge"])
    def purge_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask, then purge what was ticked."""
        return self._chosen(request, PURGE, queryset)

    def _chosen(
        self, request: HttpRequest, verb: Verb, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        ids = list(queryset.values_list("pk", flat=True)[:MOST])
        here = request.get_full_path()
        return self._act(request, Scope(verb.name, ids, here, here), verb)

    def _act(self, request: HttpRequest, scope: Scope, verb: Verb) -> HttpResponse | None:
        if len(scope.ids) > verb.at_once:
            return self._ask(request, scope, verb)
        perform(request, verb, scope.ids, reason="", database=jobs_database())
        return None

    def _ask(
        self, request: HttpRequest, scope: Scope, verb: Verb, form: ConfirmForm | None = None
    ) -> HttpResponse:
        """Show what would happen, and to which jobs."""
        context = {
            **self.page_context(request, original=verb.title, title=str(verb.title)),
            **confirmation.context(request, verb, scope, form, database=jobs_database()),
            "action": self.own_url(f"{verb.name}_chosen"),
        }
        return TemplateResponse(request, "admin/django_jobs/confirm.html", context)

    def get_urls(self) -> list[URLPattern]:
        """Add a verb on one job, and what follows a confirmation."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view
        own = [
            pattern
            for verb in VERBS
            for pattern in (
                path(
                    f"<int:pk>/{verb.name}/",
                    view(partial(self.one_view, verb=verb)),
                    name=f"{name}_{verb.name}_one",
                ),
                path(
                    f"{verb.name}/",
                    view(partial(self.chosen_view, verb=verb)),
                    name=f"{name}_{verb.name}_chosen",
                ),
            )
        ]
        return [*own, *super().get_urls()]

    def _refusal(self, request: HttpRequest, verb: Verb) -> HttpResponse | None:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_view_permission(request) or not verb.allowed(request):
            raise PermissionDenied
        return None

    def one_view(self, request: HttpRequest, pk: int, *, verb: Verb) -> HttpResponse:
        """Do a verb to one job, by a button of its page."""
        if refusal := self._refusal(request, verb):
            return refusal
        page = self.own_url("change", pk)
        after = self.own_url("changelist") if verb is PURGE else page
        scope = Scope(verb.name, [pk], page, after)
        return self._act(request, scope, verb) or HttpResponseRedirect(after)

    def chosen_view(self, request: HttpRequest, *, verb: Verb) -> HttpResponse:
        """Do a verb to the jobs that a page has asked about."""
        if refusal := self._refusal(request, verb):
            return refusal
        scope = unsealed(request.POST.get("scope", ""), verb)
        if scope is None:
            text = _("That page had lain open for too long; nothing was changed.")
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(self.own_url("changelist"))
        form = ConfirmForm(verb, request.POST)
        if not form.is_valid():
            return self._ask(request, scope, verb, form)
        reason = form.cleaned_data["reason"]
        perform(request, verb, scope.ids, reason=reason, database=jobs_database())
        return HttpResponseRedirect(scope.after)
