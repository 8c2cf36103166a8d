WITH RECURSIVE key AS (           -- of blocked jobs: one descent of the index a key, at most a thousand, from where the last look ended
    (SELECT limit_key AS key, 1 AS nth FROM django_jobs_job WHERE state = 'blocked' AND limit_key > %(after)s::text ORDER BY limit_key LIMIT 1)
    UNION ALL
    SELECT j.limit_key, k.nth + 1 FROM key k CROSS JOIN LATERAL (
        SELECT limit_key FROM django_jobs_job WHERE state = 'blocked' AND limit_key > k.key ORDER BY limit_key LIMIT 1) j
    WHERE k.nth < 1000
)
SELECT (SELECT extract(epoch FROM min(expires_at) - statement_timestamp())::float8 FROM django_jobs_lease) AS lapse_in,   -- seconds; negative: late
       (SELECT (extract(epoch FROM run_after) - extract(epoch FROM statement_timestamp()))::float8 FROM django_jobs_job   -- apart: infinity minus a time is an error before PostgreSQL 17
        WHERE state = 'scheduled' ORDER BY run_after LIMIT 1) AS due_in,
       (SELECT (extract(epoch FROM expires_at) - extract(epoch FROM statement_timestamp()))::float8 FROM django_jobs_job
        WHERE expires_at IS NOT NULL AND started_at IS NULL AND finished_at IS NULL AND state <> 'running' ORDER BY expires_at LIMIT 1) AS expires_in,
       (SELECT extract(epoch FROM min(coalesce(next_at, statement_timestamp())) - statement_timestamp())::float8 FROM django_jobs_schedule
        WHERE backend = %(backend)s::text AND digest = ANY (%(digests)s::text[]) AND name <> ALL (%(later)s::text[])
          AND enabled AND disabled_at IS NULL AND gone_at IS NULL) AS fires_in,
       (SELECT coalesce(count(*) <> cardinality(%(digests)s::text[]) OR NOT bool_and(digest = ANY (%(digests)s::text[])), false) FROM django_jobs_schedule
        WHERE backend = %(backend)s::text AND gone_at IS NULL) AS differs,   -- no digests at all: of a worker that fires none
       ARRAY(SELECT k.key FROM key k WHERE coalesce(   -- a key without a row, or without a size, has room
           (SELECT coalesce(l.override, l.size) > l.in_use FROM django_jobs_limit l WHERE l.key = k.key), true)) AS wakeable,
       coalesce((SELECT k.key FROM key k WHERE k.nth = 1000), '') AS after,
       CASE WHEN %(reconcile)s::bool THEN ARRAY(   -- one snapshot: claim and settle change both sides in one statement
           SELECT l.key FROM django_jobs_limit l
           LEFT JOIN (SELECT limit_key AS key, count(*) AS n FROM django_jobs_lease WHERE limit_key IS NOT NULL GROUP BY 1) h USING (key)
           WHERE l.in_use <> coalesce(h.n, 0) LIMIT 1000) END AS drifted,
       (SELECT id FROM django_jobs_job WHERE state = 'waiting' ORDER BY id LIMIT 1) IS NOT NULL AS waiting   -- else the strays need not be looked for
