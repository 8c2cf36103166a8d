WITH late AS MATERIALIZED (       -- never started; what a claim holds just now it judges itself
    SELECT id FROM django_jobs_job
    WHERE expires_at <= statement_timestamp() AND started_at IS NULL AND finished_at IS NULL AND state <> 'running'
    ORDER BY expires_at LIMIT %(limit)s::int FOR NO KEY UPDATE SKIP LOCKED
),
moved AS (
    UPDATE django_jobs_job j SET state = 'expired', cancel_asked_at = NULL, finished_at = clock_timestamp()
    FROM late l WHERE j.id = l.id AND j.id = ANY (ARRAY(SELECT id FROM late))
    RETURNING j.id, j.backend, j.queue, j.attempt, j.life
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, data)
    SELECT id, 'expired', attempt, life, '{"reason":"late"}' FROM moved ORDER BY id
)
SELECT id, backend, EXISTS (SELECT FROM django_jobs_dependency d WHERE d.parent = moved.id OFFSET 0), queue   -- who waits for it
FROM moved
