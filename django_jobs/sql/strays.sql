WITH near AS MATERIALIZED (       -- of a million that wait a few each time: the newest, and the next stretch of a round through all
    (SELECT id, after_failure, false AS round FROM django_jobs_job WHERE state = 'waiting' ORDER BY id DESC LIMIT %(newest)s::int)
    UNION ALL
    (SELECT id, after_failure, true FROM django_jobs_job WHERE state = 'waiting' AND id > %(after)s::bigint ORDER BY id LIMIT %(stretch)s::int)
)
SELECT ARRAY(                     -- those that wait for nothing any more: whoever ended their last parent did not say so
           SELECT DISTINCT n.id FROM near n
           WHERE NOT EXISTS (SELECT FROM (SELECT parent FROM django_jobs_dependency WHERE child = n.id OFFSET 0) d
                             CROSS JOIN LATERAL (SELECT finished_at FROM django_jobs_job WHERE id = d.parent OFFSET 0) q WHERE q.finished_at IS NULL)
              OR (NOT n.after_failure
                  AND EXISTS (SELECT FROM (SELECT parent FROM django_jobs_dependency WHERE child = n.id OFFSET 0) d
                              CROSS JOIN LATERAL (SELECT state, finished_at FROM django_jobs_job WHERE id = d.parent OFFSET 0) q
                              WHERE q.finished_at IS NOT NULL AND q.state <> 'succeeded'))) AS strays,
       CASE WHEN count(*) FILTER (WHERE round) = %(stretch)s::int THEN max(id) FILTER (WHERE round) ELSE 0 END AS after   -- 0: the round begins anew
FROM near
