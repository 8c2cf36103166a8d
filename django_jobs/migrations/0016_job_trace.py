"""Which span a job was enqueued under."""

from __future__ import annotations

from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0015_finished_index")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="job",
            name="trace",
            field=models.TextField(blank=True, help_text="the span that enqueued it", null=True),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
