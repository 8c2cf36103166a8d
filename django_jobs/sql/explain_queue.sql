SELECT coalesce(q.paused AND coalesce(q.paused_until > statement_timestamp(), true), false), q.paused_by, q.paused_reason, q.paused_at,
       CASE WHEN isfinite(q.paused_until) THEN q.paused_until END, q.slots, ready.n, extract(epoch FROM statement_timestamp() - ready.oldest)::float8, statement_timestamp()
FROM (SELECT) one LEFT JOIN django_jobs_queue q ON q.backend = %(backend)s::text AND q.name = %(queue)s::text
CROSS JOIN LATERAL (              -- counted no further than a page says it
    SELECT count(*) AS n, min(since) AS oldest FROM (
        SELECT greatest(enqueued_at, run_after, CASE WHEN life > 1 THEN (   -- a requeue begins the wait anew
            SELECT max(at) FROM django_jobs_event e WHERE e.job_id = j.id AND e.kind = 'requeued') END) AS since
        FROM django_jobs_job j WHERE state = 'ready' AND backend = %(backend)s::text AND queue = %(queue)s::text LIMIT %(counted)s::int) c) ready
