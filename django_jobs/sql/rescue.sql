WITH late AS MATERIALIZED (
    SELECT id, job_id FROM django_jobs_lease WHERE expires_at < statement_timestamp()
      AND (SELECT max(seen_at) FROM django_jobs_worker) > statement_timestamp() - %(quiet)s::float8 * interval '1 second'   -- else wait for a beat, which gives the late ones more time
      AND (%(only)s::bigint IS NULL OR id = %(only)s::bigint)   -- one of them alone, where the batch was refused
    ORDER BY id LIMIT 200   -- orphans among them go now, so they hold up none that comes later
),
orphan AS (                       -- no job runs under it: there is nothing to rescue
    DELETE FROM django_jobs_lease l WHERE l.id = ANY (ARRAY(   -- looked for once, whatever the plan
        SELECT x.id FROM django_jobs_lease x WHERE x.id = ANY (ARRAY(SELECT id FROM late))
           AND NOT EXISTS (SELECT FROM (SELECT state FROM django_jobs_job WHERE id = x.job_id OFFSET 0) j WHERE j.state = 'running')
        ORDER BY x.id FOR UPDATE SKIP LOCKED))
),
lapsed AS MATERIALIZED (          -- judged again under the lock: still late, still running
    SELECT l.id AS lease, l.job_id, l.worker, l.limit_key,
           coalesce(w.seen_at < statement_timestamp() - %(quiet)s::float8 * interval '1 second', true) AS suspect,
           CASE WHEN j.cancel_asked_at IS NOT NULL THEN 'cancelled' WHEN j.attempt < j.max_attempts AND j.idempotent THEN 'scheduled' WHEN j.keep_dead THEN 'dead' ELSE 'dropped' END AS state,
           least(j.backoff_cap, CASE j.backoff WHEN 'constant' THEN j.backoff_base WHEN 'linear' THEN j.backoff_base * j.attempt
                ELSE j.backoff_base * 2 ^ least(j.attempt - 1, 60) END) * (1 + j.backoff_jitter * (2 * random() - 1)) AS delay
    FROM django_jobs_lease l JOIN django_jobs_job j ON j.id = l.job_id LEFT JOIN django_jobs_worker w ON w.id = l.worker
    WHERE l.id = ANY (ARRAY(SELECT id FROM late)) AND j.id = ANY (ARRAY(SELECT job_id FROM late))
      AND l.expires_at < statement_timestamp() AND j.state = 'running'
    ORDER BY l.id LIMIT 100 FOR UPDATE OF l SKIP LOCKED FOR NO KEY UPDATE OF j SKIP LOCKED
),
released AS (
    DELETE FROM django_jobs_lease l USING lapsed h WHERE l.id = h.lease AND l.id = ANY (ARRAY(SELECT lease FROM lapsed)) RETURNING l.id AS lease
),
moved AS (                        -- the attempt stays burned: a job that kills its worker must run out of them
    UPDATE django_jobs_job j SET state = h.state, suspect = (j.suspect OR h.suspect) AND h.state = 'scheduled',
        run_after = CASE WHEN h.state = 'scheduled' THEN clock_timestamp() + h.delay * interval '1 second' ELSE j.run_after END,
        cancel_asked_at = NULL, reserved_at = NULL, error = 'worker_lost', fingerprint = 'worker_lost', finished_at = CASE WHEN h.state <> 'scheduled' THEN clock_timestamp() END
    FROM released r JOIN lapsed h USING (lease) WHERE j.id = h.job_id AND j.id = ANY (ARRAY(SELECT job_id FROM lapsed))
    RETURNING j.id, j.backend, j.state, j.queue, j.task, j.attempt, j.life, h.worker, h.limit_key
),
told AS (
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, worker, data)
    SELECT m.id, CASE m.state WHEN 'scheduled' THEN 'rescued' ELSE m.state END, m.attempt, m.life, m.worker,
           json_build_object('reason', 'worker_lost', 'error', 'worker_lost', 'class', 'django_jobs.exceptions.WorkerLost',
               'traceback', format('The lease lapsed: worker %%s on %%s did not renew it.', coalesce(w.pid::text, 'unknown'), coalesce(w.name, 'an unknown host')))::text
    FROM moved m LEFT JOIN django_jobs_worker w ON w.id = m.worker ORDER BY m.id
),
gate AS MATERIALIZED (            -- the last lock taken, in key order: the only one that is waited for
    SELECT l.key, f.n FROM django_jobs_limit l JOIN (SELECT limit_key AS key, count(*) AS n FROM moved WHERE limit_key IS NOT NULL GROUP BY 1) f USING (key)
    ORDER BY l.key FOR NO KEY UPDATE OF l
),
freed AS (
    UPDATE django_jobs_limit l SET in_use = greatest(l.in_use - g.n, 0) FROM gate g WHERE l.key = g.key
)
SELECT id, backend, state, queue, task, attempt, limit_key,
       state <> 'scheduled' AND EXISTS (SELECT FROM django_jobs_dependency d WHERE d.parent = moved.id OFFSET 0)
FROM moved
