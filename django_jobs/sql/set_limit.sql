WITH said AS (                    -- claims go by it as soon as it is committed; who blocks the row waits for nothing else
    UPDATE django_jobs_limit SET override = %(size)s::int WHERE key = %(key)s::text RETURNING key
),
told AS (
    INSERT INTO django_jobs_activity (at, actor_id, actor_name, via, verb, scope, count, reason)
    SELECT clock_timestamp(), %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, 1, %(reason)s::text FROM said
    RETURNING id
)
SELECT id FROM told
