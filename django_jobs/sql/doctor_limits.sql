WITH held AS MATERIALIZED (       -- the truth: a permit is a lease
    SELECT limit_key AS key, count(*)::int AS n FROM django_jobs_lease WHERE limit_key IS NOT NULL GROUP BY 1
),
said AS MATERIALIZED (
    SELECT key, in_use FROM django_jobs_limit ORDER BY key LIMIT %(looked)s::int
)
SELECT s.key, s.in_use, coalesce(h.n, 0) FROM said s LEFT JOIN held h USING (key)
WHERE s.in_use <> coalesce(h.n, 0) ORDER BY s.key LIMIT %(most)s::int
