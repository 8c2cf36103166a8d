WITH said AS (                    -- next: reckoned from the row before this; when the row has changed, or that time has come, a worker reckons it anew
    UPDATE django_jobs_schedule SET disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL,
        next_at = CASE WHEN schedule = %(schedule)s::text AND timezone = %(timezone)s::text AND %(next)s::timestamptz > clock_timestamp() THEN %(next)s::timestamptz END
    WHERE backend = %(backend)s::text AND name = %(name)s::text AND disabled_at IS NOT NULL
    RETURNING clock_timestamp() AS at
),
told AS (
    INSERT INTO django_jobs_activity (at, actor_id, actor_name, via, verb, scope, count, reason)
    SELECT at, %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, 1, %(reason)s::text FROM said
    RETURNING id
)
SELECT id FROM told
