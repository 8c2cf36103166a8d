SELECT id, job_id FROM django_jobs_lease WHERE worker = %(worker)s::uuid ORDER BY id
