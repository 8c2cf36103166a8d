SELECT id FROM django_jobs_lease WHERE expires_at < statement_timestamp() ORDER BY id
