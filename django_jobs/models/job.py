"""One request to run a task."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import JSONText, TextArray
from django_jobs.states import FINAL, JobState

URGENCY = Func(F("priority"), template="(-%(expressions)s)")  # ascending, as every ORDER BY says


class JobQuerySet(models.QuerySet["Job"]):
    """Adjectives for jobs."""

    def live(self) -> JobQuerySet:
        """Jobs that have not ended."""
        return self.filter(finished_at__isnull=True)

    def final(self) -> JobQuerySet:
        """Jobs that have ended."""
        return self.filter(finished_at__isnull=False)

    def dead(self) -> JobQuerySet:
        """Dead letters."""
        return self.filter(state=JobState.DEAD)

    def due(self) -> JobQuerySet:
        """Scheduled jobs whose time has come by the database's clock."""
        return self.filter(state=JobState.SCHEDULED, run_after__lte=Now())

    def in_queue(self, name: str) -> JobQuerySet:
        """Jobs of one queue."""
        return self.filter(queue=name)


class Job(models.Model):
    """One request to run a task; the row is written by the statements in ``sql/``."""

    id = models.BigAutoField(primary_key=True)
    backend = models.TextField(db_default="default", help_text=_("alias in TASKS"))
    task = models.TextField(help_text=_("dotted path"))
    state = models.TextField(choices=JobState.choices, db_default=JobState.READY)
    queue = models.TextField(db_default="default")
    priority = models.SmallIntegerField(db_default=0)
    placement = models.IntegerField(db_default=0, help_text=_("0: any host"))
    suspect = models.BooleanField(db_default=False, help_text=_("its worker died with it"))
    args = JSONText(db_default=[])
    kwargs = JSONText(db_default={})
    metadata = JSONText(null=True, blank=True)
    run_after = models.DateTimeField(null=True, blank=True)
    attempt = models.SmallIntegerField(db_default=0, help_text=_("counted at the claim"))
    max_attempts = models.SmallIntegerField(db_default=3)
    backoff = models.TextField(db_default="exponential")
    backoff_base = models.FloatField(db_default=2.0)
    backoff_cap = models.FloatField(db_default=600.0)
    backoff_jitter = models.FloatField(db_default=0.25)
    retry_on = TextArray(null=True, blank=True)
    give_up_on = TextArray(null=True, blank=True)
    keep_dead = models.BooleanField(db_default=True)
    idempotent = models.BooleanField(db_default=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text=_("if not started by then"))
    timeout = models.FloatField(
        null=True, blank=True, help_text=_("seconds of one run; null: as its worker says")
    )
    limit_key = models.TextField(null=True, blank=True)
    limit_size = models.IntegerField(null=True, blank=True)
    limit_every = models.FloatField(null=True, blank=True, help_text=_("seconds between starts"))
    limit_burst = models.IntegerField(null=True, blank=True)
    limit_discard = models.BooleanField(db_default=False, help_text=_("cancelled if it is full"))
    reserved_at = models.DateTimeField(null=True, blank=True, help_text=_("start by the rate"))
    unique_key = models.TextField(null=True, blank=True)
    after_failure = models.BooleanField(db_default=False, help_text=_("of a parent too"))
    cancel_asked_at = models.DateTimeField(null=True, blank=True)
    schedule = models.TextField(null=True, blank=True, help_text=_("which enqueued it"))
    scheduled_for = models.DateTimeField(null=True, blank=True, help_text=_("its occurrence"))
    trace = models.TextField(null=True, blank=True, help_text=_("the span that enqueued it"))
    worker_ids = TextArray(db_default=Value([], TextArray()))
    life = models.SmallIntegerField(db_default=1, help_text=_("raised by a requeue"))
    settled_lease = models.BigIntegerField(null=True, blank=True)
    result = JSONText(null=True, blank=True)
    error = models.TextField(null=True, blank=True)
    fingerprint = models.TextField(null=True, blank=True)
    enqueued_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    last_attempted_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions: ClassVar = [
            ("requeue_job", _("Can requeue jobs")),
            ("purge_job", _("Can purge jobs")),
            ("cancel_job", _("Can cancel jobs")),
            ("run_job", _("Can run scheduled jobs now")),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="django_jobs_job_known_state",
                condition=Q(state__in=list(JobState)),
            ),
            models.CheckConstraint(
                name="django_jobs_job_finished_at_iff_final",
                condition=Q(state__in=sorted(FINAL), finished_at__isnull=False)
                | (~Q(state__in=sorted(FINAL)) & Q(finished_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="django_jobs_job_scheduled_has_run_after",
                condition=~Q(state="scheduled") | Q(run_after__isnull=False),
            ),
            models.CheckConstraint(
                name="django_jobs_job_running_has_attempt",
                condition=~Q(state="running") | Q(attempt__gte=1),
            ),
            models.CheckConstraint(
                name="django_jobs_job_attempt_in_bounds",
                condition=Q(attempt__gte=0, max_attempts__gte=1),
            ),
            models.CheckConstraint(
                name="django_jobs_job_priority_in_bounds",
                condition=Q(priority__gte=-100, priority__lte=100),
            ),
            models.UniqueConstraint(
                name="django_jobs_job_unique_key",
                fields=["backend", "unique_key"],
                condition=Q(unique_key__isnull=False, finished_at__isnull=True),
            ),
        ]
        indexes: ClassVar = [
            # The claim: one lane is one range, in the order in which its jobs are taken.
            models.Index(
                "backend",
                "queue",
                "placement",
                "suspect",
                URGENCY,
                "id",
                name="django_jobs_job_ready",
                condition=Q(state="ready"),
            ),
            # The sweeper: what is due, and when the next will be.
            models.Index(
                fields=["run_after"],
                name="django_jobs_job_scheduled",
                condition=Q(state="scheduled"),
            ),
            # The wake: who is next when a place of a key is free.
            models.Index(
                "limit_key",
                URGENCY,
                "id",
                name="django_jobs_job_blocked",
                condition=Q(state="blocked"),
            ),
            # The sweeper: whose parents may all have ended.
            models.Index(
                fields=["id"],
                name="django_jobs_job_waiting",
                condition=Q(state="waiting"),
            ),
            # The sweeper: who has not started in time.
            models.Index(
                fields=["expires_at"],
                name="django_jobs_job_expires",
                condition=Q(
                    expires_at__isnull=False, started_at__isnull=True, finished_at__isnull=True
                ),
            ),
            # The retention: which of an alias have been over for longest; 98 bytes of WAL a job.
            models.Index(
                fields=["backend", "state", "finished_at"],
                name="django_jobs_job_finished",
                condition=Q(finished_at__isnull=False),
            ),
            # The metrics: how many of each queue; a job that is only ready and run never pays.
            models.Index(
                fields=["state", "backend", "queue"],
                name="django_jobs_job_counted",
                condition=Q(state__in=["scheduled", "blocked", "dead"]),
            ),
            # The admin: the newest of one schedule; a job of no schedule never pays for it.
            models.Index(
                F("backend"),
                F("schedule"),
                F("id").desc(),
                name="django_jobs_job_schedule",
                condition=Q(schedule__isnull=False),
            ),
            # The admin's lists of history; a live job never pays for them.
            models.Index(
                F("queue"),
                F("id").desc(),
                name="django_jobs_job_queue_history",
                condition=Q(finished_at__isnull=False),
            ),
            models.Index(
                F("id").desc(),
                name="django_jobs_job_dead",
                condition=Q(state="dead"),
            ),
        ]

    def __str__(self) -> str:
        """Name the job without its arguments, which may be secret."""
        return f"{self.task} #{self.pk}"
