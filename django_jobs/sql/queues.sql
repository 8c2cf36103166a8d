WITH RECURSIVE queues AS (        -- one index probe a queue, however many jobs it holds
    (SELECT queue FROM django_jobs_job WHERE state = 'ready' AND backend = %(backend)s::text ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT n.queue FROM queues q CROSS JOIN LATERAL (
        SELECT queue FROM django_jobs_job WHERE state = 'ready' AND backend = %(backend)s::text AND queue > q.queue ORDER BY queue LIMIT 1) n
)
SELECT queue FROM queues
