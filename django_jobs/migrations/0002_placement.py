"""What jobs ask of hosts, who skips what, and who paused a queue."""

from __future__ import annotations

import django.db.models.functions.datetime
import django_jobs.models.fields
from django.db import migrations, models

# Each change is instant once it has its lock, but whoever comes later waits behind it: so a busy
# table is given up soon, and the migration is run again. It locks one table that others use, for
# two locks, taken in another order than theirs, would be a deadlock.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0001_initial")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Placement",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("digest", models.TextField()),
                ("host", models.TextField(blank=True, null=True)),
                (
                    "labels",
                    django_jobs.models.fields.TextArray(
                        db_default=models.Value([], django_jobs.models.fields.TextArray())
                    ),
                ),
                (
                    "resources",
                    django_jobs.models.fields.JSONText(db_default={}, help_text="name → amount"),
                ),
                ("task", models.TextField(blank=True, help_text="whose code it takes", null=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "unknown_since",
                    models.DateTimeField(blank=True, help_text="by every live worker", null=True),
                ),
                (
                    "warned_at",
                    models.DateTimeField(blank=True, help_text="of that", null=True),
                ),
            ],
            options={
                "verbose_name": "placement",
                "verbose_name_plural": "placements",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Skip",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("host", models.TextField(help_text="the worker's name")),
                ("placement", models.IntegerField()),
                ("reason", models.TextField(help_text="a code of placement.Reason")),
                ("detail", models.TextField(blank=True, db_default="")),
                (
                    "since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "verbose_name": "skip",
                "verbose_name_plural": "skips",
            },
        ),
        migrations.AddIndex(
            model_name="placement",
            index=models.Index(fields=["digest"], name="django_jobs_placement_digest"),
        ),
        migrations.AddConstraint(
            model_name="skip",
            constraint=models.UniqueConstraint(
                fields=("host", "placement"), name="django_jobs_skip_host"
            ),
        ),
        migrations.AlterModelOptions(
            name="job",
            options={
                "permissions": [
                    ("requeue_job", "Can requeue jobs"),
                    ("purge_job", "Can purge jobs"),
                    ("run_job", "Can run scheduled jobs now"),
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
        migrations.AlterModelOptions(
            name="queue",
            options={
                "permissions": [("pause_queue", "Can pause and resume queues")],
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
            },
        ),
        migrations.AddField(
            model_name="queue",
            name="paused_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="queue",
            name="paused_by",
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="queue",
            name="paused_reason",
            field=models.TextField(blank=True, null=True),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
