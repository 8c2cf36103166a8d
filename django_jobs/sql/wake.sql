WITH free AS MATERIALIZED (       -- keys with room; a size that nobody has said is no bound
    SELECT k.key, l.n FROM unnest(%(keys)s::text[]) AS k(key) CROSS JOIN LATERAL (SELECT
        (SELECT coalesce(override, size) - in_use FROM django_jobs_limit WHERE key = k.key) AS n) l
    WHERE coalesce(l.n > 0, true)
),
next AS MATERIALIZED (            -- who is most urgent; one that somebody else wakes is skipped
    SELECT b.id FROM free f CROSS JOIN LATERAL (
        SELECT id FROM django_jobs_job WHERE state = 'blocked' AND limit_key = f.key
        ORDER BY -priority, id LIMIT least(coalesce(f.n, 1000), 1000) FOR NO KEY UPDATE SKIP LOCKED) b
),
moved AS (
    UPDATE django_jobs_job j SET state = 'ready' FROM next n WHERE j.id = n.id AND j.id = ANY (ARRAY(SELECT id FROM next))
    RETURNING j.id, j.backend, j.queue
)
SELECT m.backend, m.queue, m.ids,   -- a bell for other sleepers; of its own alias a worker takes what it can itself, and rings for the rest
       CASE WHEN m.backend IS DISTINCT FROM %(own)s::text AND EXISTS (
           SELECT FROM django_jobs_worker w WHERE w.backend = m.backend AND w.idle AND w.id <> %(worker)s::uuid
              AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
       THEN CASE WHEN pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || m.backend))
            THEN pg_notify('django_jobs', m.queue || ' ' || m.backend) END END IS NOT NULL AS rang
FROM (SELECT backend, queue, array_agg(id ORDER BY id) AS ids FROM moved GROUP BY backend, queue) m
