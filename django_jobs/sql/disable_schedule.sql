WITH said AS (                    -- the one who locks the row last has the last word; when it would have been due is told by whoever enables it
    UPDATE django_jobs_schedule SET disabled_at = clock_timestamp(), disabled_by = %(actor_name)s::text, disabled_reason = %(reason)s::text, next_at = NULL
    WHERE backend = %(backend)s::text AND name = %(name)s::text
    RETURNING disabled_at
),
told AS (
    INSERT INTO django_jobs_activity (at, actor_id, actor_name, via, verb, scope, count, reason)
    SELECT disabled_at, %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, 1, %(reason)s::text FROM said
    RETURNING id
)
SELECT id FROM told
