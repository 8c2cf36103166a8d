"""Which schedule has enqueued a job, and for when."""

from __future__ import annotations

from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0011_lease_progress")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="job",
            name="schedule",
            field=models.TextField(blank=True, help_text="which enqueued it", null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="scheduled_for",
            field=models.DateTimeField(blank=True, help_text="its occurrence", null=True),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
