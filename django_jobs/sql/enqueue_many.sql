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
                %(retry_on)s::text[], %(give_up_on)s::text[], %(keep_dead)s::bool[], %(idempotent)s::bool[], %(timeout)s::float8[], %(expires_in)s::float8[],
                %(limit_key)s::text[], %(limit_size)s::int[], %(limit_every)s::float8[], %(limit_burst)s::int[], %(limit_discard)s::bool[], %(digest)s::text[], %(unique_key)s::text[], %(parents)s::text[], %(after_failure)s::bool[], %(trace)s::text[]) WITH ORDINALITY
        AS w(task, queue, priority, args, kwargs, metadata, run_after_at, delay, max_attempts, backoff, backoff_base, backoff_cap, backoff_jitter,
             retry_on, give_up_on, keep_dead, idempotent, timeout, expires_in,
             limit_key, limit_size, limit_every, limit_burst, limit_discard, digest, unique_key, parents, after_failure, trace, place)
),
tie AS MATERIALIZED (
    SELECT w.id AS child, p.id::bigint AS parent FROM wish w CROSS JOIN LATERAL unnest(string_to_array(w.parents, ' ')) AS p(id)
),
parent AS MATERIALIZED (          -- against a purge only: KEY SHARE lets a settle go on
    SELECT id FROM django_jobs_job WHERE id = ANY (ARRAY(SELECT DISTINCT parent FROM tie)) AND backend = %(backend)s::text ORDER BY id FOR KEY SHARE
),
orphan AS MATERIALIZED (          -- one whose parent is not there: then nothing is inserted
    SELECT DISTINCT parent AS id FROM tie WHERE parent NOT IN (SELECT id FROM parent)
),
taken AS MATERIALIZED (           -- a probe a key: as = ANY it was a scan of every live key on some statistics
    SELECT j.id, j.state, j.enqueued_at, j.run_after, k.unique_key
    FROM (SELECT DISTINCT unique_key FROM wish WHERE unique_key IS NOT NULL) k CROSS JOIN LATERAL (
        SELECT id, state, enqueued_at, run_after FROM django_jobs_job
        WHERE backend = %(backend)s::text AND unique_key = k.unique_key AND finished_at IS NULL LIMIT 1) j
),
made AS (                         -- in the order of the keys, in which they come: two batches that share keys cannot deadlock
    INSERT INTO django_jobs_job (id, backend, task, queue, priority, placement, state, args, kwargs, metadata, run_after, max_attempts,
                                 backoff, backoff_base, backoff_cap, backoff_jitter, retry_on, give_up_on, keep_dead, idempotent, timeout,
                                 expires_at, limit_key, limit_size, limit_every, limit_burst, limit_discard, unique_key, after_failure, trace)
    SELECT w.id, %(backend)s::text, w.task, w.queue, w.priority, coalesce(s.id, 0),
           CASE WHEN w.parents IS NOT NULL THEN 'waiting' WHEN run_after > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
           args, kwargs, metadata, run_after, max_attempts, backoff, backoff_base, backoff_cap, backoff_jitter,
           string_to_array(retry_on, ' '), string_to_array(give_up_on, ' '), keep_dead, idempotent, w.timeout,
           statement_timestamp() + w.expires_in * interval '1 second', w.limit_key, w.limit_size, w.limit_every, w.limit_burst, w.limit_discard, w.unique_key, coalesce(w.after_failure, false), w.trace
    FROM wish w LEFT JOIN spot s ON s.digest = w.digest
    WHERE NOT EXISTS (SELECT FROM taken t WHERE t.unique_key = w.unique_key) AND NOT EXISTS (SELECT FROM orphan)
    ORDER BY w.place
    ON CONFLICT (backend, unique_key) WHERE unique_key IS NOT NULL AND finished_at IS NULL DO NOTHING
    RETURNING id, queue, state, enqueued_at, run_after, unique_key
),
linked AS (
    INSERT INTO django_jobs_dependency (parent, child) SELECT t.parent, m.id FROM tie t JOIN made m ON m.id = t.child
),
bell AS MATERIALIZED (            -- one a queue, and only for a live sleeper
    SELECT CASE WHEN %(long)s::bool OR pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || %(backend)s::text))
           THEN pg_notify('django_jobs', m.queue || ' ' || %(backend)s::text) END IS NOT NULL AS rang
    FROM (SELECT DISTINCT queue FROM made WHERE %(ring)s::bool AND (state = 'ready' OR run_after < statement_timestamp() + interval '5 seconds')) m
    WHERE EXISTS (SELECT FROM django_jobs_worker w WHERE w.backend = %(backend)s::text AND w.idle
                     AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
)
SELECT coalesce(m.id, n.id, t.id), coalesce(m.state, n.state, t.state), coalesce(m.enqueued_at, n.enqueued_at, t.enqueued_at),
       coalesce(m.run_after, n.run_after, t.run_after), m.id IS NOT NULL AS created,   -- no id: a race was lost, send them again
       ARRAY(SELECT id FROM orphan ORDER BY id) AS orphans, (SELECT count(*) FILTER (WHERE rang) FROM bell) AS bells
FROM wish w LEFT JOIN made m ON m.id = w.id LEFT JOIN made n ON n.unique_key = w.unique_key LEFT JOIN taken t ON t.unique_key = w.unique_key
ORDER BY w.place
