DELETE FROM django_jobs_worker w   -- rows of processes that are long gone; kept for a day so that history can name them
WHERE w.seen_at < statement_timestamp() - %(after)s::float8 * interval '1 second'
  AND NOT EXISTS (SELECT FROM django_jobs_lease l WHERE l.worker = w.id)
