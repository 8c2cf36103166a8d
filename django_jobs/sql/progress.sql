WITH news AS MATERIALIZED (       -- what is lost in a crash is said again by the run, or by nobody any more
    SELECT n.id, n.progress, set_config('synchronous_commit', 'off', true) AS unflushed FROM unnest(%(leases)s::bigint[], %(texts)s::text[]) AS n(id, progress)
),
held AS MATERIALIZED (            -- in id order and never waiting: a settle or a renewal at work keeps its rows
    SELECT id FROM django_jobs_lease WHERE id = ANY (%(leases)s::bigint[]) AND worker = %(worker)s::uuid ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE django_jobs_lease l SET progress = n.progress
FROM held h JOIN news n USING (id) WHERE l.id = h.id RETURNING l.id   -- no row: busy or lost; the renewal tells which
