WITH look AS MATERIALIZED (       -- what each job is before any lock
    SELECT id, state, life FROM django_jobs_job WHERE id = ANY (%(ids)s::bigint[])
),
parented AS MATERIALIZED (        -- a live job still waits for it; purge_lock keeps others from being tied to it
    SELECT DISTINCT l.id FROM look l CROSS JOIN LATERAL (SELECT child FROM django_jobs_dependency WHERE parent = l.id OFFSET 0) d
    CROSS JOIN LATERAL (SELECT finished_at FROM django_jobs_job WHERE id = d.child OFFSET 0) c WHERE c.finished_at IS NULL
),
held AS MATERIALIZED (            -- final under the lock too; in the life that was seen, so this statement sees all of its events
    SELECT j.id FROM django_jobs_job j JOIN look l ON l.id = j.id
    WHERE j.id = ANY (%(ids)s::bigint[]) AND j.state = ANY (%(final)s::text[]) AND j.life = l.life AND j.id NOT IN (SELECT id FROM parented)
    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
),
begun AS (                        -- one record an act: its first batch that changes anything writes it
    INSERT INTO django_jobs_activity (actor_id, actor_name, via, verb, scope, count, reason)
    SELECT %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, count(*), %(reason)s::text
    FROM held WHERE %(activity)s::bigint IS NULL HAVING count(*) > 0 RETURNING id
),
grown AS (                        -- and its later batches add to the count
    UPDATE django_jobs_activity SET count = count + (SELECT count(*) FROM held) WHERE id = %(activity)s::bigint AND EXISTS (SELECT FROM held) RETURNING id
),
tied AS MATERIALIZED (            -- in one order: two who purge each other's kin must not wait for each other
    SELECT d.id FROM django_jobs_dependency d WHERE d.id = ANY (ARRAY(
        SELECT p.id FROM held h CROSS JOIN LATERAL (SELECT id FROM django_jobs_dependency WHERE parent = h.id OFFSET 0) p
        UNION SELECT c.id FROM held h CROSS JOIN LATERAL (SELECT id FROM django_jobs_dependency WHERE child = h.id OFFSET 0) c))
    ORDER BY d.id FOR UPDATE OF d
),
forgotten AS (                    -- no foreign key does this: its locks would hide jobs from the claim
    DELETE FROM django_jobs_event WHERE job_id = ANY (ARRAY(SELECT id FROM held))
),
untied AS (
    DELETE FROM django_jobs_dependency WHERE id = ANY (ARRAY(SELECT id FROM tied))
),
gone AS (
    DELETE FROM django_jobs_job WHERE id = ANY (ARRAY(SELECT id FROM held)) RETURNING id, backend, queue
)
SELECT a.id, (SELECT id FROM begun UNION ALL SELECT id FROM grown), g.backend, g.queue,
       CASE WHEN g.id IS NOT NULL THEN NULL WHEN l.id IS NULL THEN 'not found' WHEN l.state <> ALL (%(final)s::text[]) THEN l.state
            WHEN a.id IN (SELECT id FROM parented) THEN 'live children' ELSE 'locked' END AS refused
FROM unnest(%(ids)s::bigint[]) AS a(id) LEFT JOIN look l USING (id) LEFT JOIN gone g USING (id)
