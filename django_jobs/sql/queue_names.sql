WITH RECURSIVE past AS (          -- queues of jobs that have ended: one index probe a queue, however many jobs it had
    (SELECT queue, 1 AS n FROM django_jobs_job WHERE finished_at IS NOT NULL ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT j.queue, p.n + 1 FROM past p CROSS JOIN LATERAL (
        SELECT queue FROM django_jobs_job WHERE finished_at IS NOT NULL AND queue > p.queue ORDER BY queue LIMIT 1) j
    WHERE p.n < %(most)s::int
),
waiting AS (                      -- and of jobs that are ready
    (SELECT backend, queue, 1 AS n FROM django_jobs_job WHERE state = 'ready' ORDER BY backend, queue LIMIT 1)
    UNION ALL
    SELECT j.backend, j.queue, w.n + 1 FROM waiting w CROSS JOIN LATERAL (
        SELECT backend, queue FROM django_jobs_job WHERE state = 'ready' AND (backend, queue) > (w.backend, w.queue) ORDER BY backend, queue LIMIT 1) j
    WHERE w.n < %(most)s::int
)
SELECT queue FROM past UNION SELECT queue FROM waiting UNION (SELECT name FROM django_jobs_queue LIMIT %(most)s::int) ORDER BY 1 LIMIT %(most)s::int
