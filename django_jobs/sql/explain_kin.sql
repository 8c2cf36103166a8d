WITH tie AS MATERIALIZED (        -- no more than are counted
    (SELECT true AS up, parent AS id FROM django_jobs_dependency WHERE child = %(job)s::bigint LIMIT %(counted)s::int)
    UNION ALL
    (SELECT false, child FROM django_jobs_dependency WHERE parent = %(job)s::bigint ORDER BY child LIMIT %(counted)s::int)
),
kin AS MATERIALIZED (             -- one that is not there any more is waited for by nobody
    SELECT t.up, t.id, j.task, j.state, NOT coalesce(j.state = ANY (%(done)s::text[]), true) AS undone,
           NOT coalesce(j.state = ANY (%(done)s::text[]), true) AND j.state = ANY (%(final)s::text[]) AS failed
    FROM tie t LEFT JOIN django_jobs_job j ON j.id = t.id AND j.id = ANY (ARRAY(SELECT id FROM tie))
)
SELECT up, id, task, state, total, undone, failed
FROM (SELECT up, id, task, state, count(*) OVER w AS total, count(*) FILTER (WHERE k.undone) OVER w AS undone, count(*) FILTER (WHERE k.failed) OVER w AS failed,
             row_number() OVER (PARTITION BY up ORDER BY NOT k.failed, NOT k.undone, id) AS nth
      FROM kin k WINDOW w AS (PARTITION BY up)) r
WHERE nth <= %(named)s::int ORDER BY up, nth
