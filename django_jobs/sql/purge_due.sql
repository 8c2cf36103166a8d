SELECT a.state FROM unnest(%(states)s::text[], %(ages)s::float8[], %(afters)s::timestamptz[]) AS a(state, age, after)
CROSS JOIN LATERAL (              -- one descent of the index a state
    SELECT id FROM django_jobs_job j
    WHERE j.backend = %(backend)s::text AND j.state = a.state AND j.finished_at IS NOT NULL
      AND j.finished_at >= coalesce(a.after, '-infinity') AND j.finished_at < statement_timestamp() - a.age * interval '1 second'
    ORDER BY j.finished_at LIMIT 1) old
UNION ALL
SELECT 'events' FROM (            -- without an age there are none
    SELECT at FROM django_jobs_event WHERE job_id IS NULL AND at < statement_timestamp() - %(events)s::float8 * interval '1 second'
    ORDER BY at LIMIT 1) oldest
