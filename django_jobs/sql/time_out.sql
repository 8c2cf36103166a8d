WITH late AS MATERIALIZED (       -- runs that are over their time, as their worker says
    SELECT * FROM unnest(%(leases)s::bigint[], %(jobs)s::bigint[], %(timeouts)s::float8[]) AS o(lease, job_id, timeout)
),
held AS MATERIALIZED (            -- the fence; a row somebody else holds is left for the next pass, never waited for
    SELECT l.id AS lease, l.job_id, o.timeout FROM late o JOIN django_jobs_lease l ON l.id = o.lease AND l.job_id = o.job_id
    WHERE l.worker = %(worker)s::uuid AND l.timed_out_at IS NULL   -- once a lease
    ORDER BY l.id FOR NO KEY UPDATE OF l SKIP LOCKED
),
marked AS (
    UPDATE django_jobs_lease l SET timed_out_at = clock_timestamp()
    FROM held h WHERE l.id = h.lease AND l.id = ANY (ARRAY(SELECT lease FROM held)) RETURNING l.id AS lease
),
told AS (                         -- while the lease is locked nobody changes attempt and life
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, worker, data)
    SELECT j.id, 'timed_out', j.attempt, j.life, %(worker)s::uuid, json_build_object('timeout', h.timeout)::text
    FROM held h JOIN marked USING (lease) JOIN django_jobs_job j ON j.id = h.job_id AND j.id = ANY (ARRAY(SELECT job_id FROM held))
    ORDER BY j.id
)
SELECT l.id   -- those that were busy; of the others all is told, or their lease is gone
FROM late o JOIN django_jobs_lease l ON l.id = o.lease AND l.job_id = o.job_id LEFT JOIN marked m ON m.lease = l.id
WHERE l.worker = %(worker)s::uuid AND l.timed_out_at IS NULL AND m.lease IS NULL
