WITH look AS MATERIALIZED (       -- what each job is before any lock
    SELECT id, state, life FROM django_jobs_job WHERE id = ANY (%(ids)s::bigint[])
),
held AS MATERIALIZED (            -- live under the lock too, and in the life that was seen; a row somebody else holds is left, never waited for
    SELECT j.id, j.state, j.backend, j.queue, j.worker_ids[cardinality(j.worker_ids)] AS worker, j.state = 'running' AND j.cancel_asked_at IS NOT NULL AS asked
    FROM django_jobs_job j JOIN look l ON l.id = j.id
    WHERE j.id = ANY (%(ids)s::bigint[]) AND j.state <> ALL (%(final)s::text[]) AND j.life = l.life
    ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED
),
new AS MATERIALIZED (             -- one that was asked before is asked once
    SELECT id, state FROM held WHERE NOT asked
),
begun AS (                        -- one record an act: its first batch that changes anything writes it
    INSERT INTO django_jobs_activity (actor_id, actor_name, via, verb, scope, count, reason)
    SELECT %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, count(*), %(reason)s::text
    FROM new WHERE %(activity)s::bigint IS NULL HAVING count(*) > 0 RETURNING id
),
grown AS (                        -- and its later batches add to the count
    UPDATE django_jobs_activity SET count = count + (SELECT count(*) FROM new) WHERE id = %(activity)s::bigint AND EXISTS (SELECT FROM new) RETURNING id
),
act AS MATERIALIZED (
    SELECT id FROM begun UNION ALL SELECT id FROM grown
),
moved AS (                        -- whoever runs it is asked; nobody runs the others, and none of them holds a permit
    UPDATE django_jobs_job j SET state = CASE h.state WHEN 'running' THEN j.state ELSE 'cancelled' END,
        cancel_asked_at = CASE h.state WHEN 'running' THEN clock_timestamp() END,
        finished_at = CASE WHEN h.state <> 'running' THEN clock_timestamp() END
    FROM unnest(ARRAY(SELECT id FROM new), ARRAY(SELECT state FROM new)) AS h(id, state)   -- of the set itself one row is expected, and for each row all were looked up
    WHERE j.id = h.id AND j.id = ANY (ARRAY(SELECT id FROM new))   -- else a guess of many rows makes it scan the whole table
    RETURNING j.id, j.attempt, j.life, h.state AS before
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, actor, activity_id, data)
    SELECT m.id, CASE m.before WHEN 'running' THEN 'cancel_asked' ELSE 'cancelled' END, m.attempt, m.life, %(actor_name)s::text, (SELECT id FROM act),
           json_build_object('from', m.before, 'reason', %(reason)s::text, 'by', 'operator')::text
    FROM moved m ORDER BY m.id
)
SELECT a.id, (SELECT id FROM act), h.backend, h.queue,
       CASE WHEN h.id IS NOT NULL THEN NULL WHEN l.id IS NULL THEN 'not found' WHEN l.state = ANY (%(final)s::text[]) THEN l.state ELSE 'locked' END AS refused,
       h.state = 'running' AS asked,
       h.state <> 'running' AND EXISTS (SELECT FROM django_jobs_dependency d WHERE d.parent = a.id OFFSET 0) AS has_children,   -- who waits for it
       CASE WHEN h.state = 'running' AND h.worker IS NOT NULL THEN pg_notify('django_jobs', h.worker) END IS NOT NULL AS rang   -- a bell for its worker, which asks at once
FROM unnest(%(ids)s::bigint[]) AS a(id) LEFT JOIN look l USING (id) LEFT JOIN held h USING (id)
