"""Where a worker answers for its health, and whether it fires schedules."""

from __future__ import annotations

from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0013_schedule")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="worker",
            name="cron",
            field=models.BooleanField(db_default=False, help_text="fires schedules"),
        ),
        migrations.AddField(
            model_name="worker",
            name="health",
            field=models.TextField(blank=True, help_text="host:port that answers", null=True),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
