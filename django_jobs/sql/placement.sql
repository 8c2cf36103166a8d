WITH known AS MATERIALIZED (      -- racing first uses may make twins, which do no harm; waiting for a stranger's commit would
    SELECT min(id) AS id FROM django_jobs_placement WHERE digest = %(digest)s::text
),
fresh AS (
    INSERT INTO django_jobs_placement (digest, host, labels, resources, task)
    SELECT %(digest)s::text, %(host)s::text, %(labels)s::text[], %(resources)s::text, %(task)s::text WHERE (SELECT id FROM known) IS NULL
    RETURNING id
)
SELECT coalesce((SELECT id FROM known), (SELECT id FROM fresh))
