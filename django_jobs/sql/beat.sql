WITH gap AS MATERIALIZED (        -- nobody has beaten for longer than a lease outlives a renewal: the database was away, not the workers
    SELECT coalesce(max(seen_at) < statement_timestamp() - %(quiet)s::float8 * interval '1 second', true) AS found FROM django_jobs_worker
),
late AS MATERIALIZED (
    SELECT id FROM django_jobs_lease WHERE (SELECT found FROM gap) AND expires_at < statement_timestamp() AND NOT graced
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
),
graced AS (                       -- one more lease time, once: a renewal clears the mark
    UPDATE django_jobs_lease l SET expires_at = clock_timestamp() + %(lease)s::float8 * interval '1 second', graced = true FROM late h WHERE l.id = h.id
)
INSERT INTO django_jobs_worker AS w (id, backend, name, pid, version, queues, state, capacity, in_flight, idle, epoch, lease_seconds, renew_seconds,
    aliases, labels, resources, slots, default_slots, cron, health, seen_at, loop_at)
VALUES (%(worker)s::uuid, %(backend)s::text, %(name)s::text, %(pid)s::int, %(version)s::text, %(queues)s::text[], %(state)s::text, %(capacity)s::int,
        %(in_flight)s::int, %(idle)s::bool, %(epoch)s::int, %(lease)s::float8, %(renew)s::float8, %(aliases)s::text[], %(labels)s::text[], %(resources)s::text,
        %(slots)s::text, %(default_slots)s::int, %(cron)s::bool, %(health)s::text, clock_timestamp(), clock_timestamp() - %(loop_age)s::float8 * interval '1 second')
ON CONFLICT (id) DO UPDATE SET state = excluded.state, in_flight = excluded.in_flight, queues = excluded.queues,   -- not idle: the loop says that itself
    lease_seconds = excluded.lease_seconds, renew_seconds = excluded.renew_seconds, seen_at = excluded.seen_at, loop_at = excluded.loop_at
RETURNING w.epoch
