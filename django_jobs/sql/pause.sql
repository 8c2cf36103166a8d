WITH said AS (                    -- the one who locks the row last has the last word; an end that passed while that took is refused like any other
    INSERT INTO django_jobs_queue AS q (backend, name, paused, paused_at, paused_by, paused_reason, paused_until)
    SELECT %(backend)s::text, %(queue)s::text, true, clock_timestamp(), %(actor_name)s::text, %(reason)s::text, u.until
    FROM (SELECT %(until)s::timestamptz AS until) u WHERE coalesce(u.until > clock_timestamp(), true)
    ON CONFLICT (backend, name) DO UPDATE SET paused = true, paused_at = clock_timestamp(), paused_by = excluded.paused_by,
        paused_reason = excluded.paused_reason, paused_until = excluded.paused_until
    WHERE coalesce(excluded.paused_until > clock_timestamp(), true)
    RETURNING q.paused_at
),
told AS (
    INSERT INTO django_jobs_activity (at, actor_id, actor_name, via, verb, scope, count, reason)
    SELECT paused_at, %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, 1, %(reason)s::text FROM said
    RETURNING id
)
SELECT id FROM told
