SELECT j.id FROM django_jobs_job j   -- so that no child is tied to them any more, and the purge sees all that are
WHERE j.id = ANY (%(ids)s::bigint[]) AND j.finished_at IS NOT NULL
ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
