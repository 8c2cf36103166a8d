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
named AS MATERIALIZED (           -- what settings, operators and jobs know, or the one queue of the page
    SELECT backend, queue FROM (
        SELECT backend, queue FROM unnest(%(backends)s::text[], %(queues)s::text[]) AS s(backend, queue)
        UNION SELECT backend, name FROM django_jobs_queue UNION SELECT backend, queue FROM waiting UNION SELECT backend, queue FROM running) all_of_them
    WHERE NOT %(only)s::bool OR (backend, queue) IN (SELECT * FROM unnest(%(backends)s::text[], %(queues)s::text[]))
    ORDER BY backend, queue LIMIT %(most)s::int
)
SELECT n.backend, n.queue, ready.n, ready.oldest, coalesce(r.n, 0), q.slots,
       coalesce(q.paused AND coalesce(q.paused_until > statement_timestamp(), true), false), q.paused_at, q.paused_by, q.paused_reason,
       CASE WHEN isfinite(q.paused_until) THEN q.paused_until END,
       (SELECT count(*) FROM django_jobs_worker w
        WHERE w.backend = n.backend AND w.state = 'running'
          AND least(w.seen_at, w.loop_at) >= statement_timestamp() - 2 * w.renew_seconds * interval '1 second'   -- one that is late serves nobody
          AND (w.queues IS NULL OR n.queue = ANY (w.queues))),
       statement_timestamp()
FROM named n LEFT JOIN running r USING (backend, queue) LEFT JOIN django_jobs_queue q ON q.backend = n.backend AND q.name = n.queue
CROSS JOIN LATERAL (              -- counted no further than a page says it
    SELECT count(*) AS n, min(since) AS oldest FROM (
        SELECT greatest(enqueued_at, run_after, CASE WHEN life > 1 THEN (   -- a requeue begins the wait anew
            SELECT max(at) FROM django_jobs_event e WHERE e.job_id = j.id AND e.kind = 'requeued') END) AS since
        FROM django_jobs_job j WHERE state = 'ready' AND backend = n.backend AND queue = n.queue LIMIT %(counted)s::int + 1) c) ready
ORDER BY n.backend, n.queue
