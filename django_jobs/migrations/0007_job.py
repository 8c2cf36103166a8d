"""What a job says of its limit, key, parents and time."""

from __future__ import annotations

from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0006_flow")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AlterModelOptions(
            name="job",
            options={
                "permissions": [
                    ("requeue_job", "Can requeue jobs"),
                    ("purge_job", "Can purge jobs"),
                    ("cancel_job", "Can cancel jobs"),
                    ("run_job", "Can run scheduled jobs now"),
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
        migrations.AddField(
            model_name="job",
            name="after_failure",
            field=models.BooleanField(db_default=False, help_text="of a parent too"),
        ),
        migrations.AddField(
            model_name="job",
            name="cancel_asked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="expires_at",
            field=models.DateTimeField(blank=True, help_text="if not started by then", null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_burst",
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_discard",
            field=models.BooleanField(db_default=False, help_text="cancelled if it is full"),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_every",
            field=models.FloatField(blank=True, help_text="seconds between starts", null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_key",
            field=models.TextField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="limit_size",
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="reserved_at",
            field=models.DateTimeField(blank=True, help_text="start by the rate", null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="unique_key",
            field=models.TextField(blank=True, null=True),
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
