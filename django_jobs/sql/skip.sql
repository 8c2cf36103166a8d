WITH mine AS MATERIALIZED (       -- what this host passes over, and why
    SELECT * FROM unnest(%(placements)s::int[], %(reasons)s::text[], %(details)s::text[]) AS m(placement, reason, detail)
),
written AS (                      -- a reason that stands there already is not written again: of racing first words one counts
    INSERT INTO django_jobs_skip AS s (host, placement, reason, detail)
    SELECT %(host)s::text, placement, reason, detail FROM mine m
    WHERE placement = ANY (%(changed)s::int[]) OR NOT EXISTS (SELECT FROM django_jobs_skip k WHERE k.host = %(host)s::text AND k.placement = m.placement)
    ORDER BY placement
    ON CONFLICT (host, placement) DO UPDATE SET reason = excluded.reason, detail = excluded.detail, since = clock_timestamp()
    WHERE (s.reason, s.detail) IS DISTINCT FROM (excluded.reason, excluded.detail) AND s.placement = ANY (%(changed)s::int[])
    RETURNING placement, reason, detail
),
told AS (
    INSERT INTO django_jobs_event (kind, attempt, life, worker, placement, host, data)
    SELECT 'skipped', 0, 0, %(worker)s::uuid, w.placement, %(host)s::text, json_build_object('reason', w.reason, 'detail', w.detail)::text
    FROM written w ORDER BY w.placement
),
cleared AS (                      -- what this host now fits, or what is gone; not the word of another worker under the same name
    DELETE FROM django_jobs_skip s WHERE s.host = %(host)s::text
      AND (s.placement = ANY (%(fitting)s::int[]) OR NOT EXISTS (SELECT FROM django_jobs_placement p WHERE p.id = s.placement))
      AND NOT EXISTS (SELECT FROM django_jobs_worker w WHERE w.name = s.host AND w.id <> %(worker)s::uuid AND w.state <> 'stopped'
                         AND w.seen_at > statement_timestamp() - w.lease_seconds * interval '1 second')
    RETURNING s.placement
)
SELECT (SELECT count(*) FROM written), (SELECT count(*) FROM cleared)
