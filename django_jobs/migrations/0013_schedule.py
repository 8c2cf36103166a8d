"""The schedules, a table of its own."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0012_job_schedule")]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("backend", models.TextField(db_default="default")),
                ("name", models.TextField()),
                ("task", models.TextField()),
                ("schedule", models.TextField()),
                ("timezone", models.TextField()),
                (
                    "queue",
                    models.TextField(blank=True, help_text="empty: the task's own", null=True),
                ),
                ("catch_up", models.TextField(db_default="run_once")),
                ("overlap", models.TextField(db_default="allow")),
                (
                    "enabled",
                    models.BooleanField(db_default=True, help_text="as the settings say"),
                ),
                ("digest", models.TextField()),
                ("since", models.DateTimeField(db_default=Now())),
                (
                    "next_at",
                    models.DateTimeField(blank=True, help_text="the next occurrence", null=True),
                ),
                (
                    "last_at",
                    models.DateTimeField(
                        blank=True, help_text="the last one that fired", null=True
                    ),
                ),
                ("fired_at", models.DateTimeField(blank=True, help_text="when it did", null=True)),
                ("last_job", models.BigIntegerField(blank=True, null=True)),
                (
                    "missed_at",
                    models.DateTimeField(
                        blank=True, help_text="the last without a job", null=True
                    ),
                ),
                ("missed_why", models.TextField(blank=True, null=True)),
                ("disabled_at", models.DateTimeField(blank=True, null=True)),
                ("disabled_by", models.TextField(blank=True, null=True)),
                ("disabled_reason", models.TextField(blank=True, null=True)),
                (
                    "gone_at",
                    models.DateTimeField(blank=True, help_text="out of the settings", null=True),
                ),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "permissions": [
                    ("disable_schedule", "Can disable and enable schedules"),
                    ("run_schedule", "Can run schedules now"),
                ],
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("backend", "name"), name="django_jobs_schedule_name"
                    )
                ],
            },
        ),
    ]
