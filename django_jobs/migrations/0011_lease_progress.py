"""What a run says of itself, and that its time is over."""

from __future__ import annotations

import django_jobs.models.fields
from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0010_job_timeout")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="lease",
            name="progress",
            field=django_jobs.models.fields.JSONText(
                blank=True, help_text="what its run says of itself", null=True
            ),
        ),
        migrations.AddField(
            model_name="lease",
            name="timed_out_at",
            field=models.DateTimeField(
                blank=True, help_text="its run is over its timeout and has not ended", null=True
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
