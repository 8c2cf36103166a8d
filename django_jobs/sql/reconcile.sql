WITH held AS MATERIALIZED (       -- the truth: a permit is a lease
    SELECT limit_key AS key, count(*)::int AS n FROM django_jobs_lease WHERE limit_key = ANY (%(keys)s::text[]) GROUP BY 1
),
wrong AS MATERIALIZED (
    SELECT l.key, l.in_use, coalesce(h.n, 0) AS n FROM django_jobs_limit l LEFT JOIN held h USING (key)
    WHERE l.key = ANY (%(keys)s::text[]) AND l.in_use <> coalesce(h.n, 0)
),
righted AS (
    UPDATE django_jobs_limit l SET in_use = w.n FROM wrong w WHERE l.key = w.key AND l.key = ANY (%(keys)s::text[])
)
SELECT key, in_use, n FROM wrong ORDER BY key
