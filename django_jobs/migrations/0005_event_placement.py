"""The index of events that have no job, made while others write."""

from __future__ import annotations

from django.db import migrations, models

NAME = "django_jobs_event_placement"


class Migration(migrations.Migration):
    atomic = False  # CONCURRENTLY works in no transaction

    dependencies = [("django_jobs", "0004_worker")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(
                        condition=models.Q(("placement__isnull", False)),
                        fields=["placement", "host"],
                        name=NAME,
                    ),
                ),
            ],
            database_operations=[
                migrations.RunSQL(
                    # one that was broken off left an invalid index behind
                    [
                        f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}",
                        f"CREATE INDEX CONCURRENTLY {NAME} ON django_jobs_event (placement, host)"
                        " WHERE placement IS NOT NULL",
                    ],
                    [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"],
                ),
            ],
        ),
    ]
