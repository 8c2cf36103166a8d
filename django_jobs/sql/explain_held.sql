WITH lease AS MATERIALIZED (      -- as few as these workers' caps
    SELECT worker, job_id FROM django_jobs_lease WHERE worker = ANY (%(workers)s::uuid[])
),
held AS MATERIALIZED (
    SELECT l.worker, j.placement, count(*) AS n, count(*) FILTER (WHERE j.queue = %(queue)s::text) AS here, bool_or(j.suspect) AS suspect
    FROM lease l LEFT JOIN django_jobs_job j ON j.id = l.job_id AND j.id = ANY (ARRAY(SELECT job_id FROM lease)) GROUP BY l.worker, j.placement
)
SELECT h.worker, sum(h.n)::int, sum(h.here)::int, coalesce(bool_or(h.suspect), false), array_agg(h.n::int), array_agg(p.resources)   -- so often that placement is held
FROM held h LEFT JOIN django_jobs_placement p ON p.id = h.placement GROUP BY h.worker
