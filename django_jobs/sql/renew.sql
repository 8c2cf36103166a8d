WITH visible AS MATERIALIZED (
    SELECT id, job_id FROM django_jobs_lease WHERE id = ANY (%(leases)s::bigint[]) AND worker = %(worker)s::uuid
),
held AS MATERIALIZED (            -- in id order and never waiting: a settle at work keeps its rows
    SELECT id FROM django_jobs_lease WHERE id = ANY (%(leases)s::bigint[]) AND worker = %(worker)s::uuid ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
),
renewed AS (
    UPDATE django_jobs_lease l SET expires_at = clock_timestamp() + %(lease)s::float8 * interval '1 second', graced = false
    FROM held h WHERE l.id = h.id RETURNING l.id
),
asked AS MATERIALIZED (           -- whose run shall end
    SELECT id FROM django_jobs_job WHERE id = ANY (ARRAY(SELECT job_id FROM visible)) AND cancel_asked_at IS NOT NULL
)
SELECT v.id, r.id IS NOT NULL AS renewed, a.id IS NOT NULL AS asked   -- no row: lost; not renewed: busy, next time
FROM visible v LEFT JOIN renewed r USING (id) LEFT JOIN asked a ON a.id = v.job_id
