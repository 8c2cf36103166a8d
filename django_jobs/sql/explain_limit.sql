WITH held AS MATERIALIZED (       -- as few as the fleet's caps
    SELECT job_id, worker, expires_at, count(*) OVER () AS n FROM django_jobs_lease WHERE limit_key = %(key)s::text ORDER BY job_id LIMIT %(named)s::int
)
SELECT waiting.n, ahead.n, h.n, h.job_id, j.task, h.expires_at, h.worker, w.name, w.pid, w.state, w.seen_at, w.loop_at, w.renew_seconds   -- this row is there also when nobody holds it
FROM (SELECT count(*) AS n FROM (   -- counted no further than a page says it
          SELECT FROM django_jobs_job WHERE state = 'blocked' AND limit_key = %(key)s::text LIMIT %(counted)s::int) c) waiting
CROSS JOIN (SELECT count(*) AS n FROM (
          SELECT FROM django_jobs_job WHERE state = 'blocked' AND limit_key = %(key)s::text AND (-priority, id) < (%(urgency)s::int, %(job)s::bigint)
          ORDER BY -priority, id LIMIT %(counted)s::int) c) ahead
LEFT JOIN held h ON true
LEFT JOIN django_jobs_job j ON j.id = h.job_id AND j.id = ANY (ARRAY(SELECT job_id FROM held))
LEFT JOIN django_jobs_worker w ON w.id = h.worker ORDER BY h.job_id
