"""Whose permit a lease holds, and how far its run has come."""

from __future__ import annotations

from django.db import migrations, models


# As in 0002: one table, and not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0007_job")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="lease",
            name="limit_key",
            field=models.TextField(blank=True, help_text="whose permit it holds", null=True),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
