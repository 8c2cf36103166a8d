WITH RECURSIVE waiting AS (       -- queues with ready jobs: one index probe a queue, however many jobs it holds
    (SELECT backend, queue, 1 AS n FROM django_jobs_job WHERE state = 'ready' ORDER BY backend, queue LIMIT 1)
    UNION ALL
    SELECT j.backend, j.queue, w.n + 1 FROM waiting w CROSS JOIN LATERAL (
        SELECT backend, queue FROM django_jobs_job WHERE state = 'ready' AND (backend, queue) > (w.backend, w.queue) ORDER BY backend, queue LIMIT 1) j
    WHERE w.n < %(most)s::int
),
other AS (                        -- and with jobs in the other states that are counted, in the same way
    (SELECT state, backend, queue, 1 AS n FROM django_jobs_job WHERE state IN ('scheduled', 'blocked', 'dead') ORDER BY state, backend, queue LIMIT 1)
    UNION ALL
    SELECT j.state, j.backend, j.queue, o.n + 1 FROM other o CROSS JOIN LATERAL (
        SELECT state, backend, queue FROM django_jobs_job WHERE state IN ('scheduled', 'blocked', 'dead') AND (state, backend, queue) > (o.state, o.backend, o.queue)
        ORDER BY state, backend, queue LIMIT 1) j
    WHERE o.n < 3 * %(most)s::int
),
named AS MATERIALIZED (           -- those of the settings first
    SELECT backend, queue FROM (
        SELECT backend, queue, true AS given FROM unnest(%(backends)s::text[], %(queues)s::text[]) AS s(backend, queue)
        UNION ALL SELECT backend, queue, false FROM waiting UNION ALL SELECT backend, queue, false FROM other) all_of_them
    WHERE backend = ANY (%(aliases)s::text[]) GROUP BY backend, queue ORDER BY bool_or(given) DESC, backend, queue LIMIT %(most)s::int
)
SELECT n.queue, (SELECT count(*) FROM (   -- each counted no further than the documentation says; a range and an ORDER BY, so that the one index is read in order
           SELECT FROM django_jobs_job WHERE state = 'ready' AND (backend, queue) >= (n.backend, n.queue) AND (backend, queue) <= (n.backend, n.queue) ORDER BY backend, queue LIMIT %(counted)s::int) c),
       greatest(coalesce(extract(epoch FROM statement_timestamp()) - extract(epoch FROM ready.oldest), 0), 0)::float8,   -- apart: infinity minus a time is an error before PostgreSQL 17
       (SELECT count(*) FROM (
           SELECT FROM django_jobs_job WHERE state = 'dead' AND (backend, queue) >= (n.backend, n.queue) AND (backend, queue) <= (n.backend, n.queue) ORDER BY backend, queue LIMIT %(counted)s::int) c),
       (SELECT count(*) FROM (
           SELECT FROM django_jobs_job WHERE state = 'scheduled' AND (backend, queue) >= (n.backend, n.queue) AND (backend, queue) <= (n.backend, n.queue) ORDER BY backend, queue LIMIT %(counted)s::int) c),
       (SELECT count(*) FROM (
           SELECT FROM django_jobs_job WHERE state = 'blocked' AND (backend, queue) >= (n.backend, n.queue) AND (backend, queue) <= (n.backend, n.queue) ORDER BY backend, queue LIMIT %(counted)s::int) c),
       f.workers, f.running, f.stuck, f.notifications, f.snapshot
FROM (                            -- this row is there also when no queue is known
    SELECT (SELECT count(*) FROM django_jobs_worker
            WHERE backend = ANY (%(aliases)s::text[]) AND state <> 'stopped' AND least(seen_at, loop_at) >= statement_timestamp() - 2 * renew_seconds * interval '1 second') AS workers,
           l.running, l.stuck, pg_notification_queue_usage() AS notifications,
           (SELECT coalesce(extract(epoch FROM max(statement_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity   -- what keeps entries of ended jobs from being cleared away
            WHERE datname = current_database() AND backend_type = 'client backend' AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()) AS snapshot
    FROM (SELECT count(*) AS running, count(timed_out_at) AS stuck FROM django_jobs_lease) l) f   -- the leases are as few as the fleet's cap
LEFT JOIN named n ON true
CROSS JOIN LATERAL (              -- the first of each lane, where the ids are lowest: that is where the oldest is, and starves if one does
    WITH RECURSIVE lane AS (
        (SELECT placement, suspect, -priority AS urgency, 1 AS nth FROM django_jobs_job
         WHERE state = 'ready' AND backend = n.backend AND queue = n.queue ORDER BY backend, queue, placement, suspect, -priority, id LIMIT 1)
        UNION ALL
        SELECT j.placement, j.suspect, j.urgency, l.nth + 1 FROM lane l CROSS JOIN LATERAL (
            SELECT placement, suspect, -priority AS urgency FROM django_jobs_job
            WHERE state = 'ready' AND backend = n.backend AND queue = n.queue AND (placement, suspect, -priority) > (l.placement, l.suspect, l.urgency)
            ORDER BY backend, queue, placement, suspect, -priority, id LIMIT 1) j
        WHERE l.nth < %(lanes)s::int
    )
    SELECT min(h.since) AS oldest FROM lane l CROSS JOIN LATERAL (
        SELECT greatest(enqueued_at, run_after, CASE WHEN life > 1 THEN (   -- a requeue begins the wait anew
            SELECT max(at) FROM django_jobs_event e WHERE e.job_id = j.id AND e.kind = 'requeued') END) AS since
        FROM django_jobs_job j WHERE state = 'ready' AND backend = n.backend AND queue = n.queue AND placement = l.placement AND suspect = l.suspect AND -priority = l.urgency
        ORDER BY backend, queue, placement, suspect, -priority, id LIMIT %(looked)s::int) h) ready
ORDER BY n.queue
