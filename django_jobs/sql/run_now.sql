WITH look AS MATERIALIZED (       -- what each job is before any lock
    SELECT id, state, run_after FROM django_jobs_job WHERE id = ANY (%(ids)s::bigint[])
),
held AS MATERIALIZED (            -- scheduled under the lock too, and for the time that was seen; a row somebody else holds is left, never waited for
    SELECT j.id, j.run_after FROM (SELECT id, run_after FROM look WHERE state = 'scheduled' ORDER BY id) l CROSS JOIN LATERAL (
        SELECT j.id, j.run_after FROM django_jobs_job j   -- probed one by one: joined, some plan reads all that is scheduled
        WHERE j.id = l.id AND j.state = 'scheduled' AND j.run_after = l.run_after
        ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED) j
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
moved AS (                        -- due now: of a ready job run_after tells since when it waits; the event keeps when it was due
    UPDATE django_jobs_job j SET state = 'ready', run_after = least(j.run_after, clock_timestamp())
    FROM unnest(ARRAY(SELECT id FROM held), ARRAY(SELECT run_after FROM held)) AS h(id, due)   -- of held itself one row is expected, and for each row all were looked up
    WHERE j.id = h.id AND j.id = ANY (ARRAY(SELECT id FROM held))   -- else a guess of many rows makes it scan the whole table
    RETURNING j.id, j.backend, j.queue, j.attempt, j.life, h.due
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, actor, activity_id, data)
    SELECT m.id, 'run_now', m.attempt, m.life, %(actor_name)s::text, (SELECT id FROM act), json_build_object('due', m.due, 'reason', %(reason)s::text)::text
    FROM moved m ORDER BY m.id
)
SELECT a.id, (SELECT id FROM act), m.backend, m.queue,
       CASE WHEN m.id IS NOT NULL THEN NULL WHEN l.id IS NULL THEN 'not found' WHEN l.state <> 'scheduled' THEN l.state ELSE 'locked' END AS refused
FROM unnest(%(ids)s::bigint[]) AS a(id) LEFT JOIN look l USING (id) LEFT JOIN moved m USING (id)
