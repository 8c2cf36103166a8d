SELECT count(*) FROM (            -- counted no further than a page says it
    SELECT FROM django_jobs_job
    WHERE state = 'ready' AND backend = %(backend)s::text AND queue = %(queue)s::text AND placement = %(placement)s::int AND suspect = %(suspect)s::bool
      AND (-priority, id) < (%(urgency)s::int, %(job)s::bigint)
    ORDER BY -priority, id LIMIT %(counted)s::int) c
