"""What a worker offers to jobs."""

from __future__ import annotations

import django_jobs.models.fields
from django.db import migrations, models

# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0003_event")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="worker",
            name="aliases",
            field=django_jobs.models.fields.TextArray(
                db_default=models.Value([], django_jobs.models.fields.TextArray()),
                help_text="more names of its host",
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="default_slots",
            field=models.IntegerField(blank=True, help_text="of other queues", null=True),
        ),
        migrations.AddField(
            model_name="worker",
            name="labels",
            field=django_jobs.models.fields.TextArray(
                db_default=models.Value([], django_jobs.models.fields.TextArray())
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="renew_seconds",
            field=models.FloatField(db_default=10.0, help_text="between two heartbeats"),
        ),
        migrations.AddField(
            model_name="worker",
            name="resources",
            field=django_jobs.models.fields.JSONText(
                db_default={}, help_text="name → amount, all of it"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="slots",
            field=django_jobs.models.fields.JSONText(
                db_default={}, help_text="queue → slots, as its settings say"
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
