SELECT id, host, labels, resources, task FROM django_jobs_placement ORDER BY id
