WITH parented AS MATERIALIZED (   -- a live job still waits for it; the locks keep others from being tied to it
    SELECT DISTINCT l.id FROM unnest(%(ids)s::bigint[]) AS l(id)
    CROSS JOIN LATERAL (SELECT child FROM django_jobs_dependency WHERE parent = l.id OFFSET 0) d
    CROSS JOIN LATERAL (SELECT finished_at FROM django_jobs_job WHERE id = d.child OFFSET 0) c WHERE c.finished_at IS NULL
),
doomed AS MATERIALIZED (          -- locked, so what was true of them is true
    SELECT l.id FROM unnest(%(ids)s::bigint[]) AS l(id) WHERE l.id NOT IN (SELECT id FROM parented)
),
tied AS MATERIALIZED (            -- in one order: two who purge each other's kin must not wait for each other
    SELECT d.id FROM django_jobs_dependency d WHERE d.id = ANY (ARRAY(
        SELECT p.id FROM doomed x CROSS JOIN LATERAL (SELECT id FROM django_jobs_dependency WHERE parent = x.id OFFSET 0) p
        UNION SELECT c.id FROM doomed x CROSS JOIN LATERAL (SELECT id FROM django_jobs_dependency WHERE child = x.id OFFSET 0) c))
    ORDER BY d.id FOR UPDATE OF d
),
forgotten AS (                    -- no foreign key does this: its locks would hide jobs from the claim
    DELETE FROM django_jobs_event WHERE job_id = ANY (ARRAY(SELECT id FROM doomed))
),
untied AS (
    DELETE FROM django_jobs_dependency WHERE id = ANY (ARRAY(SELECT id FROM tied))
),
gone AS (
    DELETE FROM django_jobs_job WHERE id = ANY (ARRAY(SELECT id FROM doomed)) RETURNING id
)
SELECT ARRAY(SELECT id FROM gone)
