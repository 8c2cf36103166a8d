WITH RECURSIVE lane AS (          -- queue and placement of ready jobs: one index probe each, however many jobs it holds
    (SELECT backend, queue, placement, 1 AS n FROM django_jobs_job WHERE state = 'ready' ORDER BY backend, queue, placement LIMIT 1)
    UNION ALL
    SELECT j.backend, j.queue, j.placement, l.n + 1 FROM lane l CROSS JOIN LATERAL (
        SELECT backend, queue, placement FROM django_jobs_job
        WHERE state = 'ready' AND (backend, queue, placement) > (l.backend, l.queue, l.placement) ORDER BY backend, queue, placement LIMIT 1) j
    WHERE l.n < %(lanes)s::int
),
counted AS MATERIALIZED (         -- no further than a page says it
    SELECT l.placement, c.n FROM lane l CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM django_jobs_job WHERE state = 'ready' AND backend = l.backend AND queue = l.queue AND placement = l.placement
            LIMIT %(counted)s::int + 1) j) c
    WHERE l.placement = ANY (%(placements)s::int[])
)
SELECT p.id, coalesce(sum(c.n), 0)::bigint, (SELECT count(*) FROM lane) >= %(lanes)s::int   -- there may be lanes that were not looked at
FROM unnest(%(placements)s::int[]) AS p(id) LEFT JOIN counted c ON c.placement = p.id GROUP BY p.id
