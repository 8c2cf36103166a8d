WITH RECURSIVE waiting AS (       -- queues with ready jobs: one index probe a queue, however many jobs it holds
    (SELECT backend, queue, 1 AS n FROM django_jobs_job WHERE state = 'ready' ORDER BY backend, queue LIMIT 1)
    UNION ALL
    SELECT j.backend, j.queue, w.n + 1 FROM waiting w CROSS JOIN LATERAL (
        SELECT backend, queue FROM django_jobs_job WHERE state = 'ready' AND (backend, queue) > (w.backend, w.queue) ORDER BY backend, queue LIMIT 1) j
    WHERE w.n < %(most)s::int
),
running AS MATERIALIZED (         -- the leases are as few as the fleet's cap
    SELECT j.backend, j.queue, count(*) AS n FROM django_jobs_lease l
    JOIN django_jobs_job j ON j.id = l.job_id AND j.id = ANY (ARRAY(SELECT job_id FROM django_jobs_lease)) GROUP BY j.backend, j.queue
),
named AS MATERIALIZED (           -- what settings, operators and jobs know
    (SELECT backend, queue FROM unnest(%(backends)s::text[], %(queues)s::text[]) AS s(backend, queue)
     UNION SELECT backend, name FROM django_jobs_queue UNION SELECT backend, queue FROM waiting UNION SELECT backend, queue FROM running)
    ORDER BY 1, 2 LIMIT %(most)s::int
)
SELECT n.backend, n.queue, ready.n, ready.oldest, coalesce(r.n, 0), q.slots,
       coalesce(q.paused AND coalesce(q.paused_until > statement_timestamp(), true), false), q.paused_until,
       (SELECT count(*) FROM django_jobs_worker w
        WHERE w.backend = n.backend AND w.state = 'running' AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second'
          AND (w.queues IS NULL OR n.queue = ANY (w.queues))),
       statement_timestamp()
FROM named n LEFT JOIN running r USING (backend, queue) LEFT JOIN django_jobs_queue q ON q.backend = n.backend AND q.name = n.queue
CROSS JOIN LATERAL (              -- counted no further than a page says it
    SELECT count(*) AS n, min(since) AS oldest FROM (
        SELECT greatest(enqueued_at, run_after, CASE WHEN life > 1 THEN (   -- a requeue begins the wait anew
            SELECT max(at) FROM django_jobs_event e WHERE e.job_id = j.id AND e.kind = 'requeued') END) AS since
        FROM django_jobs_job j WHERE state = 'ready' AND backend = n.backend AND queue = n.queue LIMIT %(counted)s::int + 1) c) ready
ORDER BY n.backend, n.queue
