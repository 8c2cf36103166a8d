WITH due AS MATERIALIZED (
    SELECT id FROM django_jobs_job WHERE state = 'scheduled' AND run_after <= statement_timestamp()
    ORDER BY run_after LIMIT %(limit)s::int FOR NO KEY UPDATE SKIP LOCKED
),
moved AS (
    UPDATE django_jobs_job j SET state = 'ready' FROM due d WHERE j.id = d.id AND j.id = ANY (ARRAY(SELECT id FROM due))
    RETURNING j.backend, j.queue
)
SELECT m.backend, m.queue, m.n,   -- a bell for other sleepers; the worker that sweeps looks by itself
       CASE WHEN EXISTS (
           SELECT FROM django_jobs_worker w WHERE w.backend = m.backend AND w.idle AND w.id <> %(worker)s::uuid
              AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
       THEN CASE WHEN pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || m.backend))
            THEN pg_notify('django_jobs', m.queue || ' ' || m.backend) END END IS NOT NULL AS rang
FROM (SELECT backend, queue, count(*) AS n FROM moved GROUP BY backend, queue) m
