WITH held AS MATERIALIZED (       -- of an entry that no worker has written down yet there is none
    SELECT id, last_job FROM django_jobs_schedule WHERE backend = %(backend)s::text AND name = %(name)s::text FOR NO KEY UPDATE
),
free AS MATERIALIZED (
    SELECT %(job)s::bigint AS job WHERE NOT %(alone)s::bool OR NOT EXISTS (
        SELECT FROM held h CROSS JOIN LATERAL (SELECT FROM django_jobs_job j WHERE j.id = h.last_job AND j.finished_at IS NULL OFFSET 0) j)
),
named AS (                        -- nobody else sees this job yet
    UPDATE django_jobs_job j SET schedule = %(name)s::text FROM free f WHERE j.id = f.job AND j.id = ANY (ARRAY(SELECT job FROM free))
),
moved AS (                        -- the next firing must not overlap with this one either
    UPDATE django_jobs_schedule s SET last_job = f.job FROM free f WHERE s.id = ANY (ARRAY(SELECT id FROM held))
),
told AS (
    INSERT INTO django_jobs_activity (actor_id, actor_name, via, verb, scope, count, reason)
    SELECT %(actor_id)s::text, %(actor_name)s::text, %(via)s::text, %(verb)s::text, %(scope)s::text, 1, %(reason)s::text FROM free
    RETURNING id
)
SELECT id FROM told
