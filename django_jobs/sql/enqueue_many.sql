WITH asked AS MATERIALIZED (      -- the placements that are asked for, each once
    SELECT p.digest, p.host, string_to_array(p.labels, ' ') AS labels, p.resources,
           (SELECT min(id) FROM django_jobs_placement k WHERE k.digest = p.digest) AS id
    FROM unnest(%(digests)s::text[], %(hosts)s::text[], %(labels)s::text[], %(resources)s::text[]) AS p(digest, host, labels, resources)
),
fresh AS (                        -- racing first uses may make twins, which do no harm; waiting for a stranger's commit would
    INSERT INTO django_jobs_placement (digest, host, labels, resources)
    SELECT digest, host, coalesce(labels, '{}'), resources FROM asked WHERE id IS NULL RETURNING id, digest
),
spot AS MATERIALIZED (
    SELECT digest, id FROM asked WHERE id IS NOT NULL UNION ALL SELECT digest, id FROM fresh
),
wish AS MATERIALIZED (            -- ids are drawn first, so that every row is answered in the order it came
    SELECT nextval(pg_get_serial_sequence('django_jobs_job', 'id')) AS id, w.*,
           coalesce(w.run_after_at, statement_timestamp() + w.delay * interval '1 second') AS run_after
    FROM unnest(%(task)s::text[], %(queue)s::text[], %(priority)s::smallint[], %(args)s::text[], %(kwargs)s::text[], %(metadata)s::text[],
                %(run_after)s::timestamptz[], %(delay)s::float8[], %(max_attempts)s::smallint[], %(backoff)s::text[],
                %(backoff_base)s::float8[], %(backoff_cap)s::float8[], %(backoff_jitter)s::float8[],
                %(retry_on)s::text[], %(give_up_on)s::text[], %(keep_dead)s::bool[], %(idempotent)s::bool[], %(digest)s::text[]) WITH ORDINALITY
        AS w(task, queue, priority, args, kwargs, metadata, run_after_at, delay, max_attempts, backoff, backoff_base, backoff_cap, backoff_jitter,
             retry_on, give_up_on, keep_dead, idempotent, digest, place)
),
made AS (
    INSERT INTO django_jobs_job (id, backend, task, queue, priority, placement, state, args, kwargs, metadata, run_after, max_attempts,
                                 backoff, backoff_base, backoff_cap, backoff_jitter, retry_on, give_up_on, keep_dead, idempotent)
    SELECT w.id, %(backend)s::text, w.task, w.queue, w.priority, coalesce(s.id, 0),
           CASE WHEN run_after > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
           args, kwargs, metadata, run_after, max_attempts, backoff, backoff_base, backoff_cap, backoff_jitter,
           string_to_array(retry_on, ' '), string_to_array(give_up_on, ' '), keep_dead, idempotent
    FROM wish w LEFT JOIN spot s ON s.digest = w.digest ORDER BY w.place
    RETURNING id, queue, state, enqueued_at, run_after
),
bell AS MATERIALIZED (            -- one a queue, and only for a live sleeper
    SELECT pg_notify('django_jobs', m.queue || ' ' || %(backend)s::text)
    FROM (SELECT DISTINCT queue FROM made WHERE %(ring)s::bool AND (state = 'ready' OR run_after < statement_timestamp() + interval '5 seconds')) m
    WHERE EXISTS (SELECT FROM django_jobs_worker w WHERE w.backend = %(backend)s::text AND w.idle
                     AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
)
SELECT m.id, m.state, m.enqueued_at, m.run_after, (SELECT count(*) FROM bell) AS bells FROM wish w JOIN made m USING (id) ORDER BY w.place
