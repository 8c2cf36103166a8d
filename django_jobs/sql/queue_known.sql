SELECT EXISTS (SELECT FROM django_jobs_queue WHERE backend = %(backend)s::text AND name = %(queue)s::text)
    OR EXISTS (                   -- in the order of the index: else some plan hopes to meet one soon and scans the table
        SELECT FROM (SELECT id FROM django_jobs_job WHERE state = 'ready' AND backend = %(backend)s::text AND queue = %(queue)s::text
                     ORDER BY placement, suspect, -priority, id LIMIT 1) j)
    OR EXISTS (                   -- what runs: the leases are as few as the fleet's cap
        SELECT FROM django_jobs_lease l CROSS JOIN LATERAL (SELECT backend, queue FROM django_jobs_job WHERE id = l.job_id OFFSET 0) j
        WHERE j.backend = %(backend)s::text AND j.queue = %(queue)s::text)
    OR EXISTS (                   -- no index knows the queues of what is scheduled: the next ones are looked at, not all
        SELECT FROM (SELECT backend, queue FROM django_jobs_job WHERE state = 'scheduled' ORDER BY run_after LIMIT 100) j
        WHERE backend = %(backend)s::text AND queue = %(queue)s::text)
