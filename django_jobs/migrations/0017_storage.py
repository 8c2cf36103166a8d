"""Room for updates of limits, and early cleaning of limits and of history."""

from __future__ import annotations

from django.db import migrations

# As in 0002: not waited for.
WAIT = "SET LOCAL lock_timeout = '2s'"
# Every claim and every end of a limited job updates its key: as the leases in 0001. The
# history is purged by the same share of its rows as the jobs are.
STORAGE = """
ALTER TABLE django_jobs_limit SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE django_jobs_event SET (autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 1);
"""
UNDO = """
ALTER TABLE django_jobs_limit RESET (fillfactor, autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE django_jobs_event RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
    autovacuum_vacuum_cost_delay);
"""


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0016_job_trace")]

    operations = [
        migrations.RunSQL(WAIT, migrations.RunSQL.noop),
        migrations.RunSQL(STORAGE, UNDO),
        migrations.RunSQL(migrations.RunSQL.noop, WAIT),
    ]
