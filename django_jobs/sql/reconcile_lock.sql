SELECT key FROM django_jobs_limit WHERE key = ANY (%(keys)s::text[]) ORDER BY key FOR NO KEY UPDATE   -- who takes or gives back a permit waits now, or has committed
