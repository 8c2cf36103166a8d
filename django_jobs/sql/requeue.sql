WITH look AS MATERIALIZED (       -- what each job is before any lock
    SELECT id, state, life, unique_key, after_failure FROM django_jobs_job WHERE id = ANY (%(ids)s::bigint[])
),
barred AS MATERIALIZED (          -- it would run before its parents, or in spite of them
    SELECT l.id, CASE WHEN bool_or(q.finished_at IS NOT NULL) THEN 'parent dead' ELSE 'parent live' END AS why
    FROM look l CROSS JOIN LATERAL (SELECT parent FROM django_jobs_dependency WHERE child = l.id OFFSET 0) d
    CROSS JOIN LATERAL (SELECT state, finished_at FROM django_jobs_job WHERE id = d.parent OFFSET 0) q
    WHERE q.finished_at IS NULL OR (q.state <> 'succeeded' AND NOT l.after_failure) GROUP BY l.id
),
final AS MATERIALIZED (            -- final under the lock too, and in the life that was seen; a row somebody else holds is left, never waited for
    SELECT j.id, j.state, j.backend, j.unique_key FROM django_jobs_job j JOIN look l ON l.id = j.id
    WHERE j.id = ANY (%(ids)s::bigint[]) AND j.state = ANY (%(final)s::text[]) AND j.life = l.life AND j.life < 32767 AND j.id NOT IN (SELECT id FROM barred)
      AND (j.unique_key IS NULL OR %(keyed)s::bool)   -- those with a key may have to wait for a stranger's commit: a statement of their own
    ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
),
taken AS MATERIALIZED (           -- a probe a key
    SELECT f.id FROM final f CROSS JOIN LATERAL (
        SELECT FROM django_jobs_job WHERE backend = f.backend AND unique_key = f.unique_key AND finished_at IS NULL LIMIT 1) k
),
held AS MATERIALIZED (            -- of those with one key the first
    SELECT DISTINCT ON (backend, unique_key, CASE WHEN unique_key IS NULL THEN id END) id, state
    FROM final WHERE id NOT IN (SELECT id FROM taken) ORDER BY backend, unique_key, CASE WHEN unique_key IS NULL THEN id END, id
),
begun AS (                        -- one record an act: its first batch that changes anything writes it
    INSERT INTO django_jobs_activity (actor_id, actor_name, via, verb, scope, count, reason)
    SELECT %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, count(*), %(reason)s::text
    FROM held WHERE %(activity)s::bigint IS NULL HAVING count(*) > 0 RETURNING id
),
grown AS (                        -- and its later batches add to the count
    UPDATE django_jobs_activity SET count = count + (SELECT count(*) FROM held) WHERE id = %(activity)s::bigint AND EXISTS (SELECT FROM held) RETURNING id
),
act AS MATERIALIZED (
    SELECT id FROM begun UNION ALL SELECT id FROM grown
),
moved AS (                        -- a new life; settled_lease stays, so that a settle whose answer was lost still finds itself
    UPDATE django_jobs_job j SET state = 'ready', life = j.life + 1, attempt = 0, suspect = false, worker_ids = '{}', run_after = NULL, expires_at = NULL, reserved_at = NULL, cancel_asked_at = NULL,
        started_at = NULL, last_attempted_at = NULL, finished_at = NULL, result = NULL, error = NULL, fingerprint = NULL
    FROM unnest(ARRAY(SELECT id FROM held), ARRAY(SELECT state FROM held)) AS h(id, state)   -- of held itself one row is expected, and for each row all were looked up
    WHERE j.id = h.id AND j.id = ANY (ARRAY(SELECT id FROM held))   -- else a guess of many rows makes it scan the whole table
    RETURNING j.id, j.backend, j.queue, j.life, h.state AS before
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, actor, activity_id, data)
    SELECT m.id, 'requeued', 0, m.life, %(actor_name)s::text, (SELECT id FROM act), json_build_object('from', m.before, 'reason', %(reason)s::text)::text
    FROM moved m ORDER BY m.id
)
SELECT a.id, (SELECT id FROM act), m.backend, m.queue,
       CASE WHEN m.id IS NOT NULL THEN NULL WHEN l.id IS NULL THEN 'not found' WHEN l.state <> ALL (%(final)s::text[]) THEN l.state
            WHEN b.id IS NOT NULL THEN b.why WHEN l.life = 32767 THEN 'too many lives' WHEN l.unique_key IS NOT NULL AND NOT %(keyed)s::bool THEN 'keyed'
            WHEN a.id IN (SELECT id FROM final) THEN 'unique key taken' ELSE 'locked' END AS refused
FROM unnest(%(ids)s::bigint[]) AS a(id) LEFT JOIN look l USING (id) LEFT JOIN barred b USING (id) LEFT JOIN moved m USING (id)
