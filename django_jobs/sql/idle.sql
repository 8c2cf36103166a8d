UPDATE django_jobs_worker SET idle = %(idle)s::bool WHERE id = %(worker)s::uuid   -- true before the last look: whoever enqueues after it rings
