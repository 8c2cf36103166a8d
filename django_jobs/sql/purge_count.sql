SELECT count(*), min(finished_at), max(finished_at) FROM django_jobs_job   -- all of them, in the order of an index
WHERE backend = %(backend)s::text AND state = %(state)s::text AND finished_at IS NOT NULL AND finished_at < %(before)s::timestamptz
  AND queue = coalesce(%(queue)s::text, queue) AND task = coalesce(%(task)s::text, task)
