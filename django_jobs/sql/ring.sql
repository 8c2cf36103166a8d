SELECT CASE WHEN pg_try_advisory_xact_lock(1684696930, hashtext(q.queue || ' ' || %(backend)s::text))   -- after a caller's commit, once for all that it enqueued
       THEN pg_notify('django_jobs', q.queue || ' ' || %(backend)s::text) END IS NOT NULL AS rang
FROM unnest(%(queues)s::text[]) AS q(queue)
WHERE EXISTS (SELECT FROM django_jobs_worker w WHERE w.backend = %(backend)s::text AND w.idle
                 AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second' AND (w.queues IS NULL OR q.queue = ANY (w.queues)))
