WITH outcome AS MATERIALIZED (    -- how each run ended, as its worker says
    SELECT * FROM unnest(%(leases)s::bigint[], %(jobs)s::bigint[], %(states)s::text[], %(delays)s::float8[], %(run_afters)s::timestamptz[], %(refunds)s::int[],
                         %(results)s::text[], %(errors)s::text[], %(fingerprints)s::text[], %(kinds)s::text[], %(datas)s::text[], %(placements)s::int[])
        AS o(lease, job_id, state, delay, run_after, refund, result, error, fingerprint, kind, data, placement)
),
held AS MATERIALIZED (            -- the fence; a row somebody else holds is left for the next pass, never waited for
    SELECT l.id AS lease, l.limit_key,   -- a cancel that was asked for wins over retry and hand-back
           CASE WHEN o.state IN ('ready', 'scheduled') AND j.cancel_asked_at IS NOT NULL THEN 'cancelled' ELSE o.state END AS state
    FROM outcome o JOIN django_jobs_lease l ON l.id = o.lease AND l.job_id = o.job_id   -- a crash may give the id of a lost claim again
    JOIN django_jobs_job j ON j.id = l.job_id AND j.id = ANY (%(jobs)s::bigint[])   -- else a merge join walks the whole primary key
    WHERE l.worker = %(worker)s::uuid AND j.state = 'running'
    ORDER BY l.id FOR UPDATE OF l SKIP LOCKED FOR NO KEY UPDATE OF j SKIP LOCKED
),
orphan AS (                       -- a lease without a running job, which only a hand in the tables makes, would be busy for ever
    DELETE FROM django_jobs_lease l WHERE l.id = ANY (ARRAY(   -- looked for once, whatever the plan
        SELECT x.id FROM django_jobs_lease x WHERE x.id = ANY (%(leases)s::bigint[]) AND x.worker = %(worker)s::uuid
           AND NOT EXISTS (SELECT FROM (SELECT state FROM django_jobs_job WHERE id = x.job_id OFFSET 0) j WHERE j.state = 'running')
        ORDER BY x.id FOR UPDATE SKIP LOCKED)) RETURNING l.id
),
released AS (
    DELETE FROM django_jobs_lease l USING held h WHERE l.id = h.lease AND l.id = ANY (ARRAY(SELECT lease FROM held)) RETURNING l.id AS lease, l.job_id, l.limit_key
),
settled AS (                      -- a refund takes back the attempt, its worker and, when nothing is left of them, the start
    UPDATE django_jobs_job j SET state = h.state, cancel_asked_at = NULL, settled_lease = o.lease, placement = coalesce(o.placement, j.placement), suspect = j.suspect AND coalesce(o.kind IN ('handed_back', 'unknown_task'), false),   -- any run that ended clears it
        run_after = CASE WHEN h.state = 'scheduled' THEN coalesce(o.run_after, clock_timestamp() + o.delay * interval '1 second') ELSE j.run_after END,
        attempt = j.attempt - o.refund, worker_ids = j.worker_ids[:cardinality(j.worker_ids) - o.refund],
        started_at = CASE WHEN j.attempt > o.refund THEN j.started_at END,
        last_attempted_at = CASE WHEN j.attempt > o.refund THEN j.last_attempted_at END,
        reserved_at = CASE WHEN o.refund > 0 THEN j.reserved_at END,   -- a retry is rated anew, a hand-back is not
        result = o.result,
        error = CASE WHEN o.refund > 0 THEN j.error ELSE o.error END,
        fingerprint = CASE WHEN o.refund > 0 THEN j.fingerprint ELSE o.fingerprint END,
        finished_at = CASE WHEN h.state NOT IN ('ready', 'scheduled') THEN clock_timestamp() END
    FROM released r JOIN held h USING (lease) JOIN outcome o USING (lease)
    WHERE j.id = r.job_id AND j.id = ANY (ARRAY(SELECT job_id FROM released))
    RETURNING j.id, r.lease, r.limit_key, j.state, j.attempt + o.refund AS attempt, j.life, j.finished_at
),
told AS (                         -- an unknown task is told once, however often it is handed back
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, worker, data)
    SELECT s.id, CASE WHEN s.state = o.state THEN o.kind ELSE s.state END, s.attempt, s.life, %(worker)s::uuid, o.data
    FROM settled s JOIN outcome o USING (lease)
    WHERE (o.kind IS NOT NULL OR s.state <> o.state)
      AND NOT (o.kind = 'unknown_task' AND EXISTS (SELECT FROM django_jobs_event e WHERE e.job_id = s.id AND e.kind = 'unknown_task' OFFSET 0))   -- OFFSET 0: else a large batch reads all events
    ORDER BY s.id
),
gate AS MATERIALIZED (            -- the last lock taken, in key order: the only one that is waited for
    SELECT l.key, f.n FROM django_jobs_limit l JOIN (SELECT limit_key AS key, count(*) AS n FROM settled WHERE limit_key IS NOT NULL GROUP BY 1) f USING (key)
    ORDER BY l.key FOR NO KEY UPDATE OF l
),
freed AS (
    UPDATE django_jobs_limit l SET in_use = greatest(l.in_use - g.n, 0) FROM gate g WHERE l.key = g.key
)
SELECT o.lease, CASE WHEN s.id IS NOT NULL THEN 'settled' WHEN j.id IS NOT NULL THEN 'repeated' WHEN l.id IS NOT NULL AND x.id IS NULL THEN 'busy' ELSE 'lost' END,
       coalesce(s.finished_at, j.finished_at), coalesce(s.state, j.state), coalesce(s.limit_key, j.limit_key),
       coalesce(s.finished_at, j.finished_at) IS NOT NULL AND EXISTS (SELECT FROM django_jobs_dependency d WHERE d.parent = o.job_id OFFSET 0)   -- who waits for it
FROM outcome o LEFT JOIN settled s USING (lease)
LEFT JOIN django_jobs_job j ON j.id = o.job_id AND j.id = ANY (%(jobs)s::bigint[]) AND j.settled_lease = o.lease   -- its first commit's answer was lost
LEFT JOIN django_jobs_lease l ON l.id = o.lease AND l.job_id = o.job_id AND l.worker = %(worker)s::uuid
LEFT JOIN orphan x ON x.id = o.lease
