"""The tables of the engine."""

from __future__ import annotations

import django.db.models.functions.datetime
import django_jobs.models.fields
from django.db import migrations, models


# Leases and workers are updated all the time: room on the page keeps those updates HOT. The job
# table turns over completely, so it is vacuumed by its share of changed rows, early and fast.
STORAGE = """
ALTER TABLE django_jobs_lease SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE django_jobs_worker SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE django_jobs_job SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Activity",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("actor_id", models.TextField(blank=True, null=True)),
                ("actor_name", models.TextField()),
                ("via", models.TextField(help_text="admin, cli, api")),
                ("verb", models.TextField()),
                ("scope", models.TextField(help_text="what it was about, in words")),
                ("count", models.IntegerField()),
                ("reason", models.TextField(blank=True, db_default="")),
            ],
            options={
                "verbose_name": "activity",
                "verbose_name_plural": "activity",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.BigIntegerField(unique=True)),
                ("worker", models.UUIDField()),
                ("graced", models.BooleanField(db_default=False)),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("backend", models.TextField()),
                ("name", models.TextField(help_text="host label")),
                ("pid", models.IntegerField()),
                ("version", models.TextField()),
                (
                    "queues",
                    django_jobs.models.fields.TextArray(help_text="null: every queue", null=True),
                ),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("running", "running"),
                            ("draining", "draining"),
                            ("stopped", "stopped"),
                        ],
                        db_default="running",
                    ),
                ),
                ("capacity", models.IntegerField()),
                ("in_flight", models.IntegerField(db_default=0)),
                ("idle", models.BooleanField(db_default=False, help_text="sleeps: ring the bell")),
                ("epoch", models.IntegerField(db_default=1)),
                (
                    "started_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="the renewer's heartbeat",
                    ),
                ),
                (
                    "loop_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="the loop's last turn",
                    ),
                ),
                (
                    "lease_seconds",
                    models.FloatField(db_default=30.0, help_text="how long its leases last"),
                ),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.BigIntegerField(blank=True, null=True)),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("failed", "attempt failed"),
                            ("rescued", "rescued"),
                            ("dead", "died"),
                            ("dropped", "dropped"),
                            ("cancelled", "cancelled"),
                            ("snoozed", "snoozed"),
                            ("handed_back", "handed back"),
                            ("unknown_task", "unknown task"),
                            ("requeued", "requeued"),
                        ]
                    ),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("attempt", models.SmallIntegerField()),
                ("life", models.SmallIntegerField()),
                ("worker", models.UUIDField(blank=True, null=True)),
                ("actor", models.TextField(blank=True, null=True)),
                ("activity_id", models.BigIntegerField(blank=True, null=True)),
                ("data", django_jobs.models.fields.JSONText(blank=True, null=True)),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "indexes": [models.Index(fields=["job_id", "id"], name="django_jobs_event_job")],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("backend", models.TextField(db_default="default", help_text="alias in TASKS")),
                ("task", models.TextField(help_text="dotted path")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("waiting", "waiting"),
                            ("scheduled", "scheduled"),
                            ("ready", "ready"),
                            ("blocked", "blocked"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("dead", "dead"),
                            ("dropped", "dropped"),
                            ("cancelled", "cancelled"),
                            ("expired", "expired"),
                        ],
                        db_default="ready",
                    ),
                ),
                ("queue", models.TextField(db_default="default")),
                ("priority", models.SmallIntegerField(db_default=0)),
                ("placement", models.IntegerField(db_default=0, help_text="0: any host")),
                (
                    "suspect",
                    models.BooleanField(db_default=False, help_text="its worker died with it"),
                ),
                ("args", django_jobs.models.fields.JSONText(db_default=[])),
                ("kwargs", django_jobs.models.fields.JSONText(db_default={})),
                ("metadata", django_jobs.models.fields.JSONText(blank=True, null=True)),
                ("run_after", models.DateTimeField(blank=True, null=True)),
                (
                    "attempt",
                    models.SmallIntegerField(db_default=0, help_text="counted at the claim"),
                ),
                ("max_attempts", models.SmallIntegerField(db_default=3)),
                ("backoff", models.TextField(db_default="exponential")),
                ("backoff_base", models.FloatField(db_default=2.0)),
                ("backoff_cap", models.FloatField(db_default=600.0)),
                ("backoff_jitter", models.FloatField(db_default=0.25)),
                ("retry_on", django_jobs.models.fields.TextArray(blank=True, null=True)),
                ("give_up_on", django_jobs.models.fields.TextArray(blank=True, null=True)),
                ("keep_dead", models.BooleanField(db_default=True)),
                ("idempotent", models.BooleanField(db_default=True)),
                (
                    "worker_ids",
                    django_jobs.models.fields.TextArray(
                        db_default=models.Value([], django_jobs.models.fields.TextArray())
                    ),
                ),
                ("life", models.SmallIntegerField(db_default=1, help_text="raised by a requeue")),
                ("settled_lease", models.BigIntegerField(blank=True, null=True)),
                ("result", django_jobs.models.fields.JSONText(blank=True, null=True)),
                ("error", models.TextField(blank=True, null=True)),
                ("fingerprint", models.TextField(blank=True, null=True)),
                (
                    "enqueued_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("last_attempted_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "permissions": [
                    ("requeue_job", "Can requeue jobs"),
                    ("purge_job", "Can purge jobs"),
                ],
                "indexes": [
                    models.Index(
                        models.F("backend"),
                        models.F("queue"),
                        models.F("placement"),
                        models.F("suspect"),
                        models.Func(models.F("priority"), template="(-%(expressions)s)"),
                        models.F("id"),
                        condition=models.Q(("state", "ready")),
                        name="django_jobs_job_ready",
                    ),
                    models.Index(
                        condition=models.Q(("state", "scheduled")),
                        fields=["run_after"],
                        name="django_jobs_job_scheduled",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("finished_at__isnull", False)),
                        name="django_jobs_job_queue_history",
                    ),
                    models.Index(
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("state", "dead")),
                        name="django_jobs_job_dead",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "waiting",
                                    "scheduled",
                                    "ready",
                                    "blocked",
                                    "running",
                                    "succeeded",
                                    "dead",
                                    "dropped",
                                    "cancelled",
                                    "expired",
                                ],
                            )
                        ),
                        name="django_jobs_job_known_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False),
                                (
                                    "state__in",
                                    ["cancelled", "dead", "dropped", "expired", "succeeded"],
                                ),
                            ),
                            models.Q(
                                models.Q(
                                    (
                                        "state__in",
                                        ["cancelled", "dead", "dropped", "expired", "succeeded"],
                                    ),
                                    _negated=True,
                                ),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="django_jobs_job_finished_at_iff_final",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "scheduled"), _negated=True),
                            ("run_after__isnull", False),
                            _connector="OR",
                        ),
                        name="django_jobs_job_scheduled_has_run_after",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "running"), _negated=True),
                            ("attempt__gte", 1),
                            _connector="OR",
                        ),
                        name="django_jobs_job_running_has_attempt",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("attempt__gte", 0), ("max_attempts__gte", 1)),
                        name="django_jobs_job_attempt_in_bounds",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__gte", -100), ("priority__lte", 100)),
                        name="django_jobs_job_priority_in_bounds",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[],
            options={
                "verbose_name": "dead letter",
                "verbose_name_plural": "dead letters",
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("django_jobs.job",),
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("backend", models.TextField(db_default="default")),
                ("name", models.TextField()),
                ("paused", models.BooleanField(db_default=False)),
                ("paused_until", models.DateTimeField(blank=True, null=True)),
                (
                    "slots",
                    models.IntegerField(
                        blank=True, help_text="per worker; empty: settings", null=True
                    ),
                ),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("backend", "name"), name="django_jobs_queue_name"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("slots__isnull", True), ("slots__gte", 0), _connector="OR"
                        ),
                        name="django_jobs_queue_slots_not_negative",
                    ),
                ],
            },
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
    ]
