WITH mine AS MATERIALIZED (       -- which version counts: that of the worker that started last
    SELECT coalesce(%(since)s::timestamptz, (SELECT started_at FROM django_jobs_worker WHERE id = %(worker)s::uuid)) AS since
),
entry AS MATERIALIZED (           -- a time that has come meanwhile was reckoned by a worker that was suspended: whoever looks first reckons anew
    SELECT name, task, schedule, timezone, queue, catch_up, overlap, enabled, digest, CASE WHEN next_at > clock_timestamp() THEN next_at END AS next_at
    FROM unnest(%(names)s::text[], %(tasks)s::text[], %(schedules)s::text[], %(timezones)s::text[], %(queues)s::text[], %(catch_ups)s::text[],
                %(overlaps)s::text[], %(enabled)s::bool[], %(digests)s::text[], %(next_ats)s::timestamptz[])
        AS e(name, task, schedule, timezone, queue, catch_up, overlap, enabled, digest, next_at)
),
other AS MATERIALIZED (           -- rows that say something else; the version of workers that are all gone counts no more
    SELECT s.id, s.name, s.since < m.since AS older, e.name IS NULL AS unknown, s.since >= m.since AND NOT EXISTS (
               SELECT FROM django_jobs_worker w WHERE w.backend = s.backend AND w.cron AND w.state <> 'stopped' AND w.started_at >= s.since
                  AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second') AS orphan
    FROM mine m CROSS JOIN django_jobs_schedule s LEFT JOIN entry e ON e.name = s.name
    WHERE s.backend = %(backend)s::text AND CASE WHEN e.name IS NULL THEN s.gone_at IS NULL ELSE s.digest <> e.digest OR s.gone_at IS NOT NULL END
),
held AS MATERIALIZED (            -- never waited for: an operator may hold one in a transaction of a whole request
    SELECT s.id FROM django_jobs_schedule s JOIN mine m ON true
    WHERE s.id = ANY (ARRAY(SELECT id FROM other WHERE older OR orphan AND %(inherit)s::bool)) AND (s.since < m.since OR %(inherit)s::bool)
    ORDER BY s.id FOR NO KEY UPDATE OF s SKIP LOCKED
),
edited AS (                       -- what was due by another rule, or before it was enabled, is not made up for
    UPDATE django_jobs_schedule s SET task = e.task, schedule = e.schedule, timezone = e.timezone, queue = e.queue, catch_up = e.catch_up,
        overlap = e.overlap, enabled = e.enabled, digest = e.digest, since = m.since, gone_at = NULL,
        next_at = CASE WHEN s.disabled_at IS NOT NULL OR NOT e.enabled THEN NULL
                       WHEN s.gone_at IS NULL AND s.enabled AND s.schedule = e.schedule AND s.timezone = e.timezone THEN s.next_at ELSE e.next_at END
    FROM entry e CROSS JOIN mine m WHERE s.id = ANY (ARRAY(SELECT id FROM held)) AND s.name = e.name
    RETURNING s.name
),
gone AS (
    UPDATE django_jobs_schedule s SET gone_at = clock_timestamp(), since = m.since FROM other o CROSS JOIN mine m
    WHERE o.id = s.id AND o.unknown AND s.id = ANY (ARRAY(SELECT id FROM held))
    RETURNING s.name
),
made AS (
    INSERT INTO django_jobs_schedule (backend, name, task, schedule, timezone, queue, catch_up, overlap, enabled, digest, next_at, since)
    SELECT %(backend)s::text, e.name, e.task, e.schedule, e.timezone, e.queue, e.catch_up, e.overlap, e.enabled, e.digest, e.next_at, m.since
    FROM entry e JOIN mine m ON m.since IS NOT NULL
    WHERE NOT EXISTS (SELECT FROM django_jobs_schedule s WHERE s.backend = %(backend)s::text AND s.name = e.name) ORDER BY e.name
    ON CONFLICT (backend, name) DO NOTHING
    RETURNING name
)
SELECT (SELECT since FROM mine) AS since, ARRAY(SELECT name FROM edited UNION ALL SELECT name FROM made ORDER BY 1) AS put,
       ARRAY(SELECT name FROM gone ORDER BY 1) AS gone, EXISTS (SELECT FROM other WHERE orphan) AS orphaned
