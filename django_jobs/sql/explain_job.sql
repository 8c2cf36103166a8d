SELECT j.id, j.backend, j.task, j.state, j.queue, j.priority, j.placement, j.suspect, j.attempt, j.max_attempts, j.idempotent,
       CASE WHEN j.run_after IS NOT NULL THEN least(greatest(j.run_after, timestamptz '0002-01-01'), timestamptz '9998-12-31') END,   -- one that Python cannot hold must not hide the job
       p.id, p.host, p.labels, p.resources, p.task,
       l.expires_at, l.worker, w.name, w.pid, w.state, w.seen_at, w.loop_at, w.renew_seconds, statement_timestamp()
FROM django_jobs_job j
LEFT JOIN django_jobs_placement p ON p.id = j.placement
LEFT JOIN django_jobs_lease l ON l.job_id = j.id
LEFT JOIN django_jobs_worker w ON w.id = l.worker
WHERE j.id = %(job)s::bigint
