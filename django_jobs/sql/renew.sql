WITH visible AS MATERIALIZED (
    SELECT id FROM django_jobs_lease WHERE id = ANY (%(leases)s::bigint[]) AND worker = %(worker)s::uuid
),
held AS MATERIALIZED (            -- in id order and never waiting: a settle at work keeps its rows
    SELECT id FROM django_jobs_lease WHERE id = ANY (%(leases)s::bigint[]) AND worker = %(worker)s::uuid ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
),
renewed AS (
    UPDATE django_jobs_lease l SET expires_at = clock_timestamp() + %(lease)s::float8 * interval '1 second', graced = false
    FROM held h WHERE l.id = h.id RETURNING l.id
)
SELECT v.id, r.id IS NOT NULL AS renewed   -- no row: lost; not renewed: busy, next time
FROM visible v LEFT JOIN renewed r USING (id)
