SELECT schedule, timezone, disabled_at, statement_timestamp() FROM django_jobs_schedule WHERE backend = %(backend)s::text AND name = %(name)s::text
