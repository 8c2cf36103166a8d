SELECT j.id, j.backend, j.task, j.state, j.queue, j.priority, j.placement, j.suspect, j.attempt, j.max_attempts, j.idempotent,
       CASE WHEN j.run_after IS NOT NULL THEN least(greatest(j.run_after, timestamptz '0002-01-01'), timestamptz '9998-12-31') END,   -- one that Python cannot hold must not hide the job
       CASE WHEN j.expires_at IS NOT NULL THEN least(greatest(j.expires_at, timestamptz '0002-01-01'), timestamptz '9998-12-31') END,
       j.started_at IS NOT NULL, j.after_failure,
       p.id, p.host, p.labels, p.resources, p.task,
       l.expires_at, l.worker, w.name, w.pid, w.state, w.seen_at, w.loop_at, w.renew_seconds,
       j.limit_key, j.limit_size, j.limit_every, j.limit_burst, j.limit_discard,
       CASE WHEN j.reserved_at IS NOT NULL THEN least(greatest(j.reserved_at, timestamptz '0002-01-01'), timestamptz '9998-12-31') END,
       k.size, k.override, k.in_use,
       CASE WHEN k.next_at IS NOT NULL THEN least(greatest(k.next_at, timestamptz '0002-01-01'), timestamptz '9998-12-31') END,
       l.timed_out_at, CASE WHEN l.timed_out_at IS NOT NULL THEN coalesce((   -- of a job that names none its event alone knows the worker's
           SELECT substring(e.data FROM '"timeout" ?: ?([0-9]{1,12}(?:[.][0-9]+)?)')::float8 FROM django_jobs_event e WHERE e.job_id = j.id AND e.kind = 'timed_out' ORDER BY e.id DESC LIMIT 1), j.timeout) END,
       statement_timestamp()
FROM django_jobs_job j
LEFT JOIN django_jobs_placement p ON p.id = j.placement
LEFT JOIN django_jobs_lease l ON l.job_id = j.id
LEFT JOIN django_jobs_worker w ON w.id = l.worker
LEFT JOIN django_jobs_limit k ON k.key = j.limit_key
WHERE j.id = %(job)s::bigint
