"""The indexes of what is over and of what is counted, made while others write."""

from __future__ import annotations

from django.db import migrations, models

NAME = "django_jobs_job_finished"
COLUMNS = "(backend, state, finished_at) WHERE finished_at IS NOT NULL"
DROP = f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"  # one that was broken off is invalid
COUNTED = "django_jobs_job_counted"
COUNTED_ROWS = (
    "ON django_jobs_job (state, backend, queue) WHERE state IN ('scheduled', 'blocked', 'dead')"
)
DROP_COUNTED = f"DROP INDEX CONCURRENTLY IF EXISTS {COUNTED}"
JOBLESS = "django_jobs_event_jobless"
DROP_JOBLESS = f"DROP INDEX CONCURRENTLY IF EXISTS {JOBLESS}"
SCHEDULE = "django_jobs_job_schedule"
SCHEDULE_ROWS = "ON django_jobs_job (backend, schedule, id DESC) WHERE schedule IS NOT NULL"
DROP_SCHEDULE = f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEDULE}"


class Migration(migrations.Migration):
    atomic = False  # CONCURRENTLY works in no transaction

    dependencies = [("django_jobs", "0014_worker_health")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddIndex(
                    model_name="job",
                    index=models.Index(
                        condition=models.Q(("finished_at__isnull", False)),
                        fields=["backend", "state", "finished_at"],
                        name="django_jobs_job_finished",
                    ),
                ),
                migrations.AddIndex(
                    model_name="job",
                    index=models.Index(
                        condition=models.Q(("state__in", ["scheduled", "blocked", "dead"])),
                        fields=["state", "backend", "queue"],
                        name="django_jobs_job_counted",
                    ),
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(
                        condition=models.Q(("job_id__isnull", True)),
                        fields=["at"],
                        name="django_jobs_event_jobless",
                    ),
                ),
                migrations.AddIndex(
                    model_name="job",
                    index=models.Index(
                        models.F("backend"),
                        models.F("schedule"),
                        models.F("id").desc(),
                        condition=models.Q(("schedule__isnull", False)),
                        name="django_jobs_job_schedule",
                    ),
                ),
            ],
            database_operations=[
                migrations.RunSQL(
                    [DROP, f"CREATE INDEX CONCURRENTLY {NAME} ON django_jobs_job {COLUMNS}"],
                    DROP,
                ),
                migrations.RunSQL(
                    [DROP_COUNTED, f"CREATE INDEX CONCURRENTLY {COUNTED} {COUNTED_ROWS}"],
                    DROP_COUNTED,
                ),
                migrations.RunSQL(
                    [
                        DROP_JOBLESS,
                        f"CREATE INDEX CONCURRENTLY {JOBLESS} ON django_jobs_event (at)"
                        " WHERE job_id IS NULL",
                    ],
                    DROP_JOBLESS,
                ),
                migrations.RunSQL(
                    [DROP_SCHEDULE, f"CREATE INDEX CONCURRENTLY {SCHEDULE} {SCHEDULE_ROWS}"],
                    DROP_SCHEDULE,
                ),
            ],
        ),
    ]
