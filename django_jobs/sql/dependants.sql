WITH RECURSIVE ended AS MATERIALIZED (   -- OFFSET 0 throughout: one index probe a row, whatever the statistics say
    SELECT p.id, s.state FROM (SELECT DISTINCT unnest(%(parents)s::bigint[]) AS id) p
    CROSS JOIN LATERAL (SELECT state, finished_at FROM django_jobs_job WHERE id = p.id OFFSET 0) s
    WHERE s.finished_at IS NOT NULL   -- outside of the probe: an index of what has ended would be walked whole for it
),
doomed AS (                       -- a parent failed, or is cancelled here itself
    SELECT c.id FROM ended e
    CROSS JOIN LATERAL (SELECT child FROM django_jobs_dependency WHERE parent = e.id OFFSET 0) d
    CROSS JOIN LATERAL (SELECT id FROM django_jobs_job WHERE id = d.child AND state = 'waiting' AND NOT after_failure OFFSET 0) c
    WHERE e.state <> 'succeeded'
    UNION
    SELECT c.id FROM unnest(%(children)s::bigint[]) AS k(id)
    CROSS JOIN LATERAL (SELECT id FROM django_jobs_job WHERE id = k.id AND state = 'waiting' AND NOT after_failure OFFSET 0) c
    WHERE EXISTS (SELECT FROM (SELECT parent FROM django_jobs_dependency WHERE child = c.id OFFSET 0) d
                  CROSS JOIN LATERAL (SELECT state, finished_at FROM django_jobs_job WHERE id = d.parent OFFSET 0) q
                  WHERE q.finished_at IS NOT NULL AND q.state <> 'succeeded')
    UNION
    SELECT c.id FROM doomed x
    CROSS JOIN LATERAL (SELECT child FROM django_jobs_dependency WHERE parent = x.id OFFSET 0) d
    CROSS JOIN LATERAL (SELECT id FROM django_jobs_job WHERE id = d.child AND state = 'waiting' AND NOT after_failure OFFSET 0) c
),
lost AS MATERIALIZED (            -- a row that somebody else holds is left to the sweeper, never waited for
    SELECT j.id FROM django_jobs_job j WHERE j.state = 'waiting' AND j.id = ANY (ARRAY(SELECT id FROM doomed))
    ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
),
asked AS MATERIALIZED (           -- whose parents may all have ended, those that are cancelled here among them
    SELECT d.child AS id FROM (SELECT id FROM ended UNION SELECT id FROM lost) p
    CROSS JOIN LATERAL (SELECT child FROM django_jobs_dependency WHERE parent = p.id OFFSET 0) d
    UNION SELECT unnest(%(children)s::bigint[])
),
freed AS MATERIALIZED (           -- every parent has succeeded, or for after_failure has ended; one without a row is not waited for
    SELECT c.id FROM asked a
    CROSS JOIN LATERAL (SELECT id, after_failure FROM django_jobs_job WHERE id = a.id AND state = 'waiting' OFFSET 0) c
    WHERE c.id NOT IN (SELECT id FROM doomed)
      AND NOT EXISTS (SELECT FROM (SELECT parent FROM django_jobs_dependency WHERE child = c.id OFFSET 0) d
                      CROSS JOIN LATERAL (SELECT id, state, finished_at FROM django_jobs_job WHERE id = d.parent OFFSET 0) q
                      WHERE (q.finished_at IS NULL AND q.id NOT IN (SELECT id FROM lost))
                         OR (NOT c.after_failure AND q.state <> 'succeeded'))
),
held AS MATERIALIZED (
    SELECT j.id FROM django_jobs_job j WHERE j.state = 'waiting' AND j.id = ANY (ARRAY(SELECT id FROM freed))
    ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
),
moved AS (
    UPDATE django_jobs_job j
    SET state = CASE WHEN h.lost THEN 'cancelled' WHEN j.run_after > clock_timestamp() THEN 'scheduled' ELSE 'ready' END,
        finished_at = CASE WHEN h.lost THEN clock_timestamp() END
    FROM (SELECT id, true AS lost FROM lost UNION ALL SELECT id, false FROM held) h
    WHERE j.id = h.id AND j.id = ANY (ARRAY(SELECT id FROM lost UNION ALL SELECT id FROM held))   -- else a guess of many rows makes it scan the whole table
    RETURNING j.id, j.backend, j.state, j.queue, j.run_after, j.attempt, j.life
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, data)
    SELECT id, 'cancelled', attempt, life, '{"reason": "parent"}' FROM moved WHERE state = 'cancelled' ORDER BY id
),
bell AS MATERIALIZED (            -- one a queue, and only for other sleepers; the worker that frees them looks by itself
    SELECT CASE WHEN pg_try_advisory_xact_lock(1684696930, hashtext(m.queue || ' ' || m.backend))
           THEN pg_notify('django_jobs', m.queue || ' ' || m.backend) END IS NOT NULL AS rang
    FROM (SELECT DISTINCT backend, queue FROM moved WHERE state = 'ready' OR (state = 'scheduled' AND run_after < statement_timestamp() + interval '5 seconds')) m
    WHERE EXISTS (SELECT FROM django_jobs_worker w WHERE w.backend = m.backend AND w.idle AND w.id IS DISTINCT FROM %(worker)s::uuid
                     AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR m.queue = ANY (w.queues)))
)
SELECT id, backend, state, queue, (SELECT count(*) FILTER (WHERE rang) FROM bell) AS bells FROM moved   -- read here, else no bell rings
