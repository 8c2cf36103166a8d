WITH old AS MATERIALIZED (        -- those of a job go with it, however old they are
    SELECT id FROM django_jobs_event WHERE job_id IS NULL AND at < statement_timestamp() - %(age)s::float8 * interval '1 second'
    ORDER BY at LIMIT %(limit)s::int FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM django_jobs_event WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id
)
SELECT count(*) FROM gone
