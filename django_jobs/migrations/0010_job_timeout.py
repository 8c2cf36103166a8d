"""How long a run of a job may take."""

from __future__ import annotations

from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0009_flow_indexes")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="job",
            name="timeout",
            field=models.FloatField(
                blank=True, help_text="seconds of one run; null: as its worker says", null=True
            ),
        ),
        migrations.AlterField(
            model_name="event",
            name="kind",
            field=models.TextField(
                choices=[
                    ("failed", "attempt failed"),
                    ("rescued", "rescued"),
                    ("dead", "died"),
                    ("dropped", "dropped"),
                    ("cancelled", "cancelled"),
                    ("timed_out", "over its timeout"),
                    ("snoozed", "snoozed"),
                    ("handed_back", "handed back"),
                    ("unknown_task", "unknown task"),
                    ("expired", "expired"),
                    ("cancel_asked", "asked to end"),
                    ("requeued", "requeued"),
                    ("run_now", "run now"),
                    ("skipped", "passed over by a host"),
                    ("nobody_knows", "no live worker knows its task"),
                ]
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
