WITH RECURSIVE queues AS (        -- with ready jobs: one index probe a queue, however many jobs it holds
    (SELECT backend, queue FROM django_jobs_job WHERE state = 'ready' ORDER BY backend, queue LIMIT 1)
    UNION ALL
    SELECT j.backend, j.queue FROM queues q CROSS JOIN LATERAL (
        SELECT backend, queue FROM django_jobs_job WHERE state = 'ready' AND (backend, queue) > (q.backend, q.queue) ORDER BY backend, queue LIMIT 1) j
),
live AS MATERIALIZED (
    SELECT backend, name FROM django_jobs_worker
    WHERE state = 'running' AND default_slots IS NOT NULL   -- else of a version that takes only jobs for any host
      AND least(seen_at, loop_at) > statement_timestamp() - 2 * renew_seconds * interval '1 second'   -- nor late
),
judged AS MATERIALIZED (          -- is there a backend whose jobs wait and whose live workers all pass them over for the task?
    SELECT p.id, p.unknown_since, p.warned_at, EXISTS (
        SELECT FROM queues q
        WHERE EXISTS (SELECT FROM live l WHERE l.backend = q.backend)
          AND NOT EXISTS (SELECT FROM live l WHERE l.backend = q.backend AND NOT EXISTS (
                  SELECT FROM django_jobs_skip s WHERE s.host = l.name AND s.placement = p.id AND s.reason = 'unknown_task'))
          AND EXISTS (SELECT FROM (
                  SELECT FROM django_jobs_job WHERE state = 'ready' AND backend = q.backend AND queue = q.queue AND placement = p.id LIMIT 1) j)
    ) AS unknown
    FROM django_jobs_placement p WHERE p.task IS NOT NULL
),
noted AS (                        -- compare and set: of workers that ask at once one tells
    UPDATE django_jobs_placement p
    SET unknown_since = CASE WHEN g.unknown THEN coalesce(p.unknown_since, statement_timestamp()) END,
        warned_at = CASE WHEN g.unknown AND g.unknown_since < statement_timestamp() - %(after)s::float8 * interval '1 second' THEN statement_timestamp() END
    FROM judged g
    WHERE p.id = g.id AND p.warned_at IS NOT DISTINCT FROM g.warned_at AND p.unknown_since IS NOT DISTINCT FROM g.unknown_since
      AND (g.unknown AND g.warned_at IS NULL AND coalesce(g.unknown_since < statement_timestamp() - %(after)s::float8 * interval '1 second', true)
           OR NOT g.unknown AND g.unknown_since IS NOT NULL)
    RETURNING p.id, p.task, p.warned_at
),
told AS (
    INSERT INTO django_jobs_event (kind, attempt, life, placement, data)
    SELECT 'nobody_knows', 0, 0, n.id, json_build_object('task', n.task)::text FROM noted n WHERE n.warned_at IS NOT NULL ORDER BY n.id
)
SELECT task FROM noted WHERE warned_at IS NOT NULL
