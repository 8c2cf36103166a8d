SELECT (SELECT extract(epoch FROM min(expires_at) - statement_timestamp())::float8 FROM django_jobs_lease) AS lapse_in,   -- seconds; negative: late
       (SELECT (extract(epoch FROM run_after) - extract(epoch FROM statement_timestamp()))::float8 FROM django_jobs_job   -- apart: infinity minus a time is an error before PostgreSQL 17
        WHERE state = 'scheduled' ORDER BY run_after LIMIT 1) AS due_in
