WITH held AS MATERIALIZED (       -- the fence; who else holds these rows does so for one short statement, and is waited for
    SELECT l.id AS lease FROM django_jobs_lease l JOIN django_jobs_job j ON j.id = l.job_id AND j.id = %(job)s::bigint
    WHERE l.id = %(lease)s::bigint AND l.job_id = %(job)s::bigint AND l.worker = %(worker)s::uuid AND j.state = 'running'
      AND extract(epoch FROM transaction_timestamp())::text = %(began)s::text   -- in the transaction that the run began
    FOR UPDATE OF l FOR NO KEY UPDATE OF j
),
released AS (
    DELETE FROM django_jobs_lease l USING held h WHERE l.id = h.lease AND l.id = %(lease)s::bigint RETURNING l.id
),
settled AS (                      -- its permit is counted after the commit: no row that others need is held until then
    UPDATE django_jobs_job j SET state = 'succeeded', result = %(result)s::text, error = NULL, fingerprint = NULL, finished_at = clock_timestamp(),
        cancel_asked_at = NULL, reserved_at = NULL, suspect = false, settled_lease = r.id
    FROM released r WHERE j.id = %(job)s::bigint
    RETURNING j.id
)
SELECT EXISTS (SELECT FROM settled), extract(epoch FROM transaction_timestamp())::text = %(began)s::text
