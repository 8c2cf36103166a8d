WITH said AS (                    -- a pause whose end has passed is over already: there is nothing to resume
    UPDATE django_jobs_queue SET paused = false, paused_at = NULL, paused_by = NULL, paused_reason = NULL, paused_until = NULL
    WHERE backend = %(backend)s::text AND name = %(queue)s::text AND paused AND coalesce(paused_until > clock_timestamp(), true)
    RETURNING clock_timestamp() AS at
),
told AS (
    INSERT INTO django_jobs_activity (at, actor_id, actor_name, via, verb, scope, count, reason)
    SELECT at, %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, 1, %(reason)s::text FROM said
    RETURNING id
)
SELECT id FROM told
