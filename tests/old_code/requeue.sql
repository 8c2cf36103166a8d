WITH look AS MATERIALIZED (       -- what each job is before any lock
    SELECT id, state, life FROM django_jobs_job WHERE id = ANY (%(ids)s::bigint[])
),
held AS MATERIALIZED (            -- final under the lock too, and in the life that was seen; a row somebody else holds is left, never waited for
    SELECT j.id, j.state FROM django_jobs_job j JOIN look l ON l.id = j.id
    WHERE j.id = ANY (%(ids)s::bigint[]) AND j.state = ANY (%(final)s::text[]) AND j.life = l.life AND j.life < 32767
    ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
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
    UPDATE django_jobs_job j SET state = 'ready', life = j.life + 1, attempt = 0, suspect = false, worker_ids = '{}', run_after = NULL,
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
            WHEN l.life = 32767 THEN 'too many lives' ELSE 'locked' END AS refused
FROM unnest(%(ids)s::bigint[]) AS a(id) LEFT JOIN look l USING (id) LEFT JOIN moved m USING (id)
