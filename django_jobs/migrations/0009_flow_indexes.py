"""The indexes of blocked, waiting, expiring and unique jobs, made while others write."""

from __future__ import annotations

from django.db import migrations, models

INDEXES = {
    "django_jobs_job_blocked": "(limit_key, (-priority), id) WHERE state = 'blocked'",
    "django_jobs_job_waiting": "(id) WHERE state = 'waiting'",
    "django_jobs_job_expires": "(expires_at)"
    " WHERE expires_at IS NOT NULL AND finished_at IS NULL AND started_at IS NULL",
}
UNIQUE = "django_jobs_job_unique_key"
KEYS = "(backend, unique_key) WHERE finished_at IS NULL AND unique_key IS NOT NULL"
DROP = "DROP INDEX CONCURRENTLY IF EXISTS {}"  # one that was broken off left an invalid index


class Migration(migrations.Migration):
    atomic = False  # CONCURRENTLY works in no transaction

    dependencies = [("django_jobs", "0008_lease")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddIndex(
                    model_name="job",
                    index=models.Index(
                        models.F("limit_key"),
                        models.Func(models.F("priority"), template="(-%(expressions)s)"),
                        models.F("id"),
                        condition=models.Q(("state", "blocked")),
                        name="django_jobs_job_blocked",
                    ),
                ),
                migrations.AddIndex(
                    model_name="job",
                    index=models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["id"],
                        name="django_jobs_job_waiting",
                    ),
                ),
                migrations.AddIndex(
                    model_name="job",
                    index=models.Index(
                        condition=models.Q(
                            ("expires_at__isnull", False),
                            ("finished_at__isnull", True),
                            ("started_at__isnull", True),
                        ),
                        fields=["expires_at"],
                        name="django_jobs_job_expires",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="job",
                    constraint=models.UniqueConstraint(
                        condition=models.Q(
                            ("finished_at__isnull", True), ("unique_key__isnull", False)
                        ),
                        fields=("backend", "unique_key"),
                        name="django_jobs_job_unique_key",
                    ),
                ),
            ],
            database_operations=[
                *[
                    migrations.RunSQL(
                        [
                            DROP.format(name),
                            f"CREATE INDEX CONCURRENTLY {name} ON django_jobs_job {columns}",
                        ],
                        DROP.format(name),
                    )
                    for name, columns in INDEXES.items()
                ],
                migrations.RunSQL(
                    [
                        DROP.format(UNIQUE),
                        f"CREATE UNIQUE INDEX CONCURRENTLY {UNIQUE} ON django_jobs_job {KEYS}",
                    ],
                    DROP.format(UNIQUE),
                ),
            ],
        ),
    ]
