WITH gone AS (                    -- rows of processes that are long gone; kept for a day so that history can name them
    DELETE FROM django_jobs_worker w
    WHERE w.seen_at < statement_timestamp() - %(after)s::float8 * interval '1 second'
      AND NOT EXISTS (SELECT FROM django_jobs_lease l WHERE l.worker = w.id)
    RETURNING id
),
hosts AS MATERIALIZED (           -- of which none is left; what they skipped goes with them
    SELECT DISTINCT s.host FROM django_jobs_skip s
    WHERE NOT EXISTS (SELECT FROM django_jobs_worker w WHERE w.name = s.host AND w.id NOT IN (SELECT id FROM gone))
),
skips AS (
    DELETE FROM django_jobs_skip s WHERE s.host IN (SELECT host FROM hosts) RETURNING s.placement, s.host
)
DELETE FROM django_jobs_event e USING skips s WHERE e.placement = s.placement AND e.host = s.host AND e.placement IS NOT NULL
