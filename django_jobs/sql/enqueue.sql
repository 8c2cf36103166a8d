WITH made AS (
    INSERT INTO django_jobs_job (backend, task, queue, priority, state, args, kwargs, metadata, run_after, expires_at, max_attempts,
                                 backoff, backoff_base, backoff_cap, backoff_jitter, retry_on, give_up_on, keep_dead, idempotent, timeout,
                                 limit_key, limit_size, limit_every, limit_burst, limit_discard, trace)
    SELECT %(backend)s::text, %(task)s::text, %(queue)s::text, %(priority)s::smallint,
           CASE WHEN a.run_after > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
           %(args)s::text, %(kwargs)s::text, %(metadata)s::text, a.run_after, statement_timestamp() + %(expires_in)s::float8 * interval '1 second',
           %(max_attempts)s::smallint,
           %(backoff)s::text, %(backoff_base)s::float8, %(backoff_cap)s::float8, %(backoff_jitter)s::float8,
           %(retry_on)s::text[], %(give_up_on)s::text[], %(keep_dead)s::bool, %(idempotent)s::bool, %(timeout)s::float8,
           %(limit_key)s::text, %(limit_size)s::int, %(limit_every)s::float8, %(limit_burst)s::int, %(limit_discard)s::bool, %(trace)s::text
    FROM (SELECT coalesce(%(run_after)s::timestamptz, statement_timestamp() + %(delay)s::float8 * interval '1 second') AS run_after) a
    RETURNING id, state, queue, run_after, enqueued_at
)
SELECT m.id, m.state, m.enqueued_at, m.run_after,
       CASE WHEN %(ring)s::bool AND (m.state = 'ready' OR m.run_after < statement_timestamp() + interval '5 seconds') AND EXISTS (
           SELECT FROM django_jobs_worker w WHERE w.backend = %(backend)s::text AND w.idle
              AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
       THEN CASE WHEN %(long)s::bool OR pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || %(backend)s::text))
            THEN pg_notify('django_jobs', m.queue || ' ' || %(backend)s::text) END END IS NOT NULL AS rang   -- only for a live sleeper: the notify takes a database-wide lock at commit
FROM made m
