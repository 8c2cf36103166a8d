"""The workers: who is alive, and what each holds."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import (
    BooleanField,
    Count,
    ExpressionWrapper,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin import placements
from django_jobs.admin.aliases import jobs_database
from django_jobs.admin.badges import health_badge
from django_jobs.admin.cells import job_url, labelled
from django_jobs.admin.moments import duration, marked, when
from django_jobs.admin.progress import OVER, marked_overdue, overdue
from django_jobs.admin.read_only import ReadOnlyAdmin
from django_jobs.models import Job, Lease, Worker

HELD = 100  # jobs that the page of a worker names


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """The last heard of comes first; ages are by the database's clock."""

    list_display = (
        "process", "badge", "heartbeat", "loop", "leases", "served", "offers", "backend",
        "version", "started",
    )  # fmt: skip
    ordering = ("-seen_at", "-pk")
    list_filter = ()
    fields = (
        "process", "id", "badge", "heartbeat", "loop", "started", "leases", "held", "served",
        "names", "labelled_with", "amounts", "backend", "version",
    )  # fmt: skip
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return workers, each with its number of leases, in one statement."""
        rows = super().get_queryset(request)
        workers: QuerySet[Any] = rows.annotate(
            held_count=_leases(Q()), over_count=_leases(OVER), now=Now()
        )
        return workers

    @admin.display(description=gettext_lazy("worker"))
    def process(self, worker: Worker) -> str:
        """The process as people know it."""
        return str(worker)

    @admin.display(description=gettext_lazy("health"))
    def badge(self, worker: Any) -> SafeString:
        """Whether it still reports; a lease outlives its worker by no more than its time."""
        return health_badge(worker.health_at(worker.now))

    @admin.display(description=gettext_lazy("heartbeat"))
    def heartbeat(self, worker: Any) -> SafeString:
        """How long ago it last reported."""
        age = max((worker.now - worker.seen_at).total_seconds(), 0.0)
        return marked(worker.seen_at, _("%s ago") % duration(age))

    @admin.display(description=gettext_lazy("last looked for jobs"))
    def loop(self, worker: Any) -> SafeString | str:
        """How long ago its claim loop last turned."""
        return when(worker.loop_at, now=worker.now)

    @admin.display(description=gettext_lazy("leases"))
    def leases(self, worker: Any) -> SafeString:
        """How many jobs it holds of those that it may, and how many of them are too long."""
        held = labelled(f"{worker.held_count}/{worker.capacity}", _("leases"))
        over = overdue(worker.over_count)
        return format_html("{}<br>{}", held, over) if over else held

    @admin.display(description=gettext_lazy("queues"))
    def served(self, worker: Worker) -> str:
        """The queues that it serves."""
        return _("every queue") if worker.queues is None else placements.some(worker.queues)

    @admin.display(description=gettext_lazy("offers"))
    def offers(self, worker: Worker) -> str:
        """What jobs may ask of it, in a line."""
        return "; ".join(filter(None, (self.labelled_with(worker), self.amounts(worker))))

    @admin.display(description=gettext_lazy("names of its host"))
    def names(self, worker: Worker) -> str:
        """By which names jobs may ask for it."""
        return placements.some(dict.fromkeys([worker.name, *worker.aliases]))

    @admin.display(description=gettext_lazy("labels"))
    def labelled_with(self, worker: Worker) -> str:
        """The labels that it offers."""
        return placements.labels(worker.labels)

    @admin.display(description=gettext_lazy("resources"))
    def amounts(self, worker: Worker) -> str:
        """How much it has in all, whatever its runs hold."""
        return placements.amounts(worker.resources)

    @admin.display(description=gettext_lazy("started"))
    def started(self, worker: Any) -> SafeString | str:
        """When it started."""
        return when(worker.started_at, now=worker.now)

    @admin.display(description=gettext_lazy("jobs"))
    def held(self, worker: Worker) -> SafeString | str:
        """The jobs that it holds."""
        jobs = Job.objects.using(jobs_database())
        mine = Lease.objects.filter(worker=worker.pk)
        over = Q(pk__in=mine.filter(OVER).values("job_id"))
        held = jobs.filter(pk__in=mine.values("job_id")).order_by("pk")
        rows = held.values_list("pk", "task", ExpressionWrapper(over, BooleanField()))[:HELD]
        lines = format_html_join("", "{}<br>", ((self._link(*row),) for row in rows))
        return lines or _("none")

    def _link(self, pk: int, task: str, over: bool) -> SafeString:
        mark = marked_overdue(_("over its timeout")) if over else ""
        url = job_url(pk, self.admin_site)
        return format_html('<a href="{}">{}</a> {} {}', url, pk, task, mark)


def _leases(condition: Q) -> Coalesce:
    """Return an expression for how many leases of a worker fulfil a condition."""
    held = Lease.objects.filter(condition, worker=OuterRef("pk")).order_by().values("worker")
    count = Subquery(held.annotate(n=Count("*")).values("n"), output_field=IntegerField())
    return Coalesce(count, 0)
