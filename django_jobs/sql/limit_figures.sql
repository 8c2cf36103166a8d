WITH asked AS MATERIALIZED (      -- the keys of one page
    SELECT DISTINCT unnest(%(keys)s::text[]) AS key
),
held AS MATERIALIZED (            -- leases are as few as the fleet's caps
    SELECT limit_key AS key, job_id, worker, expires_at, count(*) OVER (PARTITION BY limit_key) AS n, row_number() OVER (PARTITION BY limit_key ORDER BY job_id) AS nth
    FROM django_jobs_lease WHERE limit_key = ANY (%(keys)s::text[])
),
named AS MATERIALIZED (
    SELECT * FROM held WHERE nth <= %(named)s::int
),
waiting AS MATERIALIZED (         -- once a key, counted no further than a page says it
    SELECT a.key, w.* FROM asked a CROSS JOIN LATERAL (
        SELECT count(*) AS n, min(enqueued_at) AS oldest FROM ( -- a range: believed longer than the LIMIT, so read in order and never sorted
            SELECT enqueued_at FROM django_jobs_job WHERE state = 'blocked' AND limit_key >= a.key AND limit_key <= a.key
            ORDER BY limit_key, -priority, id LIMIT %(counted)s::int) c) w
)
SELECT w.key, w.n, w.oldest, h.n, h.job_id, j.task, h.expires_at, h.worker, x.name, x.pid
FROM waiting w
LEFT JOIN named h ON h.key = w.key
LEFT JOIN LATERAL (SELECT task FROM django_jobs_job WHERE id = h.job_id LIMIT 1) j ON true
LEFT JOIN django_jobs_worker x ON x.id = h.worker ORDER BY w.key, h.job_id
