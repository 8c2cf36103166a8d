WITH old AS MATERIALIZED (        -- a stretch of fixed length, by age: what is held or must stay is passed over, never walked by one statement
    SELECT id, finished_at FROM django_jobs_job
    WHERE backend = %(backend)s::text AND state = %(state)s::text AND finished_at IS NOT NULL
      AND finished_at >= coalesce(%(after)s::timestamptz, '-infinity') AND finished_at < statement_timestamp() - %(age)s::float8 * interval '1 second'
      AND id <> ALL (%(passed)s::bigint[])
    ORDER BY finished_at LIMIT %(limit)s::int
),
held AS MATERIALIZED (            -- judged again under the lock: one that was requeued meanwhile is not old; coalesce: else some plan finds them by age again
    SELECT j.id FROM django_jobs_job j
    WHERE j.id = ANY (ARRAY(SELECT id FROM old))
      AND coalesce(j.state = %(state)s::text AND j.finished_at < statement_timestamp() - %(age)s::float8 * interval '1 second', false)
    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
)
SELECT ARRAY(SELECT id FROM held), (SELECT count(*) FROM old), (SELECT max(finished_at) FROM old),
       ARRAY(SELECT id FROM old WHERE finished_at = (SELECT max(finished_at) FROM old))   -- of one moment there may be more than a stretch
