WITH old AS MATERIALIZED (        -- a stretch of fixed length, by age, whatever few of it are meant
    SELECT id, queue, task, finished_at FROM django_jobs_job
    WHERE backend = %(backend)s::text AND state = %(state)s::text AND finished_at IS NOT NULL
      AND finished_at >= coalesce(%(after)s::timestamptz, '-infinity') AND finished_at < %(before)s::timestamptz
      AND id <> ALL (%(passed)s::bigint[])
    ORDER BY finished_at LIMIT %(limit)s::int
)
SELECT ARRAY(SELECT id FROM old WHERE queue = coalesce(%(queue)s::text, queue) AND task = coalesce(%(task)s::text, task) ORDER BY id),
       (SELECT count(*) FROM old), (SELECT max(finished_at) FROM old),
       ARRAY(SELECT id FROM old WHERE finished_at = (SELECT max(finished_at) FROM old))   -- of one moment there may be more than a stretch
