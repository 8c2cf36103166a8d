SELECT id, name, digest, next_at, statement_timestamp()
FROM django_jobs_schedule WHERE backend = %(backend)s::text AND digest = ANY (%(digests)s::text[]) AND name <> ALL (%(later)s::text[])
   AND enabled AND disabled_at IS NULL AND gone_at IS NULL AND coalesce(next_at <= statement_timestamp(), true) ORDER BY id
