WITH taken AS MATERIALIZED (      -- the election: whoever moves the row on makes the jobs, in one statement
    SELECT s.id, s.name, s.overlap = 'skip' AND EXISTS (SELECT FROM django_jobs_job j WHERE j.id = s.last_job AND j.finished_at IS NULL OFFSET 0) AS busy,
           set_config('lock_timeout', '500ms', true) AS hurried   -- a stranger may hold the unique key of the job
    FROM django_jobs_schedule s
    WHERE s.id = %(schedule)s::bigint AND s.next_at IS NOT DISTINCT FROM %(due)s::timestamptz AND s.digest = %(digest)s::text
      AND s.enabled AND s.disabled_at IS NULL AND s.gone_at IS NULL
      AND abs(extract(epoch FROM statement_timestamp() - %(now)s::timestamptz)) < 5   -- what is due was reckoned then: a worker that was suspended reckons anew
    FOR NO KEY UPDATE SKIP LOCKED
),
made AS (
    INSERT INTO django_jobs_job (backend, task, queue, priority, placement, state, args, kwargs, metadata, run_after, expires_at, max_attempts,
                                 backoff, backoff_base, backoff_cap, backoff_jitter, retry_on, give_up_on, keep_dead, idempotent, timeout,
                                 limit_key, limit_size, limit_every, limit_burst, limit_discard, unique_key, schedule, scheduled_for)
    SELECT %(backend)s::text, %(task)s::text, %(queue)s::text, %(priority)s::smallint, %(placement)s::int,
           CASE WHEN %(delay)s::float8 > 0 THEN 'scheduled' ELSE 'ready' END,
           %(args)s::text, %(kwargs)s::text, %(metadata)s::text, statement_timestamp() + %(delay)s::float8 * interval '1 second',
           statement_timestamp() + %(expires_in)s::float8 * interval '1 second', %(max_attempts)s::smallint,
           %(backoff)s::text, %(backoff_base)s::float8, %(backoff_cap)s::float8, %(backoff_jitter)s::float8,
           %(retry_on)s::text[], %(give_up_on)s::text[], %(keep_dead)s::bool, %(idempotent)s::bool, %(timeout)s::float8,
           %(limit_key)s::text, %(limit_size)s::int, %(limit_every)s::float8, %(limit_burst)s::int, %(limit_discard)s::bool,
           %(unique_key)s::text, t.name, o.at
    FROM taken t CROSS JOIN unnest(%(occurrences)s::timestamptz[]) WITH ORDINALITY AS o(at, nth) WHERE NOT t.busy ORDER BY o.nth
    ON CONFLICT (backend, unique_key) WHERE unique_key IS NOT NULL AND finished_at IS NULL DO NOTHING
    RETURNING id, state, enqueued_at, run_after, queue, scheduled_for
),
missed AS MATERIALIZED (          -- the newest occurrence that gets no job, and why
    SELECT coalesce(o.at, %(missed)s::timestamptz) AS at,
           CASE WHEN o.at IS NULL THEN 'late' WHEN t.busy THEN 'overlap' ELSE 'unique' END AS why
    FROM taken t CROSS JOIN (SELECT max(at) AS at FROM unnest(%(occurrences)s::timestamptz[]) o(at) WHERE at <> ALL (ARRAY(SELECT scheduled_for FROM made))) o
    WHERE coalesce(o.at, %(missed)s::timestamptz) IS NOT NULL
),
moved AS (
    UPDATE django_jobs_schedule s SET next_at = %(next)s::timestamptz,
        last_at = coalesce(m.at, s.last_at), last_job = coalesce(m.job, s.last_job), fired_at = CASE WHEN m.job IS NULL THEN s.fired_at ELSE clock_timestamp() END,
        missed_at = coalesce((SELECT at FROM missed), s.missed_at), missed_why = coalesce((SELECT why FROM missed), s.missed_why)
    FROM taken t CROSS JOIN (SELECT max(id) AS job, max(scheduled_for) AS at FROM made) m
    WHERE s.id = t.id
)
SELECT (SELECT at FROM missed), (SELECT why FROM missed), m.id, m.state, m.enqueued_at, m.run_after, m.scheduled_for,
       CASE WHEN (m.state = 'ready' OR m.run_after < statement_timestamp() + interval '5 seconds') AND EXISTS (
           SELECT FROM django_jobs_worker w WHERE w.backend = %(backend)s::text AND w.idle
              AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
       THEN CASE WHEN pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || %(backend)s::text))
            THEN pg_notify('django_jobs', m.queue || ' ' || %(backend)s::text) END END IS NOT NULL AS rang
FROM taken t LEFT JOIN made m ON true ORDER BY m.id
