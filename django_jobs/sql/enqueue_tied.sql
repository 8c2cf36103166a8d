WITH parent AS MATERIALIZED (     -- against a purge only: KEY SHARE lets a settle go on
    SELECT id FROM django_jobs_job WHERE id = ANY (%(parents)s::bigint[]) AND backend = %(backend)s::text ORDER BY id FOR KEY SHARE
),
known AS MATERIALIZED (           -- racing first uses may make twins, which do no harm; waiting for a stranger's commit would
    SELECT min(id) AS id FROM django_jobs_placement WHERE digest = %(digest)s::text
),
fresh AS (
    INSERT INTO django_jobs_placement (digest, host, labels, resources)
    SELECT %(digest)s::text, %(host)s::text, %(labels)s::text[], %(resources)s::text WHERE %(digest)s::text IS NOT NULL AND (SELECT id FROM known) IS NULL
    RETURNING id
),
taken AS MATERIALIZED (           -- the live job of the key
    SELECT id, state, enqueued_at, run_after FROM django_jobs_job WHERE backend = %(backend)s::text AND unique_key = %(unique_key)s::text AND finished_at IS NULL
),
replaced AS (
    UPDATE django_jobs_job j SET state = 'cancelled', finished_at = clock_timestamp()
    FROM taken t WHERE %(replace)s::bool AND (SELECT count(*) FROM parent) = cardinality(%(parents)s::bigint[]) AND j.id = t.id AND j.id = ANY (ARRAY(SELECT id FROM taken)) AND j.state <> 'running' AND j.finished_at IS NULL
    RETURNING j.id, j.attempt, j.life
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, data) SELECT id, 'cancelled', attempt, life, '{"reason":"replaced"}' FROM replaced
),
made AS (                         -- no row here and none in taken: a race was lost, send it again
    INSERT INTO django_jobs_job (backend, task, queue, priority, placement, state, args, kwargs, metadata, run_after, expires_at, max_attempts,
                                 backoff, backoff_base, backoff_cap, backoff_jitter, retry_on, give_up_on, keep_dead, idempotent, timeout,
                                 limit_key, limit_size, limit_every, limit_burst, limit_discard, unique_key, after_failure, trace)
    SELECT %(backend)s::text, %(task)s::text, %(queue)s::text, %(priority)s::smallint, coalesce((SELECT id FROM known), (SELECT id FROM fresh), 0),
           CASE WHEN cardinality(%(parents)s::bigint[]) > 0 THEN 'waiting' WHEN a.run_after > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
           %(args)s::text, %(kwargs)s::text, %(metadata)s::text, a.run_after, statement_timestamp() + %(expires_in)s::float8 * interval '1 second',
           %(max_attempts)s::smallint,
           %(backoff)s::text, %(backoff_base)s::float8, %(backoff_cap)s::float8, %(backoff_jitter)s::float8,
           %(retry_on)s::text[], %(give_up_on)s::text[], %(keep_dead)s::bool, %(idempotent)s::bool, %(timeout)s::float8,
           %(limit_key)s::text, %(limit_size)s::int, %(limit_every)s::float8, %(limit_burst)s::int, %(limit_discard)s::bool,
           %(unique_key)s::text, %(after_failure)s::bool, %(trace)s::text
    FROM (SELECT coalesce(%(run_after)s::timestamptz, statement_timestamp() + %(delay)s::float8 * interval '1 second') AS run_after) a
    WHERE (SELECT count(*) FROM parent) = cardinality(%(parents)s::bigint[])
      AND ((SELECT count(*) FROM taken) = 0 OR (SELECT count(*) FROM replaced) > 0)   -- reads replaced, so that it comes before the insert
    ON CONFLICT (backend, unique_key) WHERE unique_key IS NOT NULL AND finished_at IS NULL DO NOTHING
    RETURNING id, state, queue, run_after, enqueued_at
),
linked AS (
    INSERT INTO django_jobs_dependency (parent, child) SELECT p.id, m.id FROM parent p CROSS JOIN made m
)
SELECT coalesce(m.id, t.id), coalesce(m.state, t.state), coalesce(m.enqueued_at, t.enqueued_at),
       CASE WHEN m.id IS NULL THEN t.run_after ELSE m.run_after END, m.id IS NOT NULL AS created,
       (SELECT id FROM replaced) AS replaced, ARRAY(SELECT id FROM parent) AS parents,
       CASE WHEN %(ring)s::bool AND (m.state = 'ready' OR m.run_after < statement_timestamp() + interval '5 seconds') AND EXISTS (
           SELECT FROM django_jobs_worker w WHERE w.backend = %(backend)s::text AND w.idle
              AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
       THEN CASE WHEN %(long)s::bool OR pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || %(backend)s::text))
            THEN pg_notify('django_jobs', m.queue || ' ' || %(backend)s::text) END END IS NOT NULL AS rang   -- only for a live sleeper: the notify takes a database-wide lock at commit
FROM (VALUES (1)) one LEFT JOIN made m ON true LEFT JOIN taken t ON true
