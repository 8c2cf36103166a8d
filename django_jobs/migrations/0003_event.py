"""Events of placements, which have no job."""

from __future__ import annotations

from django.db import migrations, models

# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0002_placement")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="event",
            name="host",
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="event",
            name="placement",
            field=models.IntegerField(blank=True, null=True),
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
                    ("snoozed", "snoozed"),
                    ("handed_back", "handed back"),
                    ("unknown_task", "unknown task"),
                    ("requeued", "requeued"),
                    ("run_now", "run now"),
                    ("skipped", "passed over by a host"),
                    ("nobody_knows", "no live worker knows its task"),
                ]
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
