WITH me AS MATERIALIZED (         -- the claim's own fence: one that was sent before a lost connection carries an older epoch
    SELECT id, set_config('synchronous_commit', 'off', true) AS unflushed   -- a claim lost in a crash is a lost lease: nothing ran that the database remembers
    FROM django_jobs_worker WHERE id = %(worker)s::uuid AND epoch = %(epoch)s::int FOR KEY SHARE
),
lane AS MATERIALIZED (            -- what this worker would take; pause and override are read here, so neither waits for a cache
    SELECT l.queue, l.placement, l.suspect, l.alone, l.served, l.cost, l.turn, coalesce(q.slots, l.slots) - l.held AS slots
    FROM unnest(%(queues)s::text[], %(placements)s::int[], %(suspects)s::bool[], %(alones)s::bool[], %(slots)s::int[],
                %(held)s::int[], %(served)s::bigint[], %(costs)s::bigint[], %(turns)s::int[])
        AS l(queue, placement, suspect, alone, slots, held, served, cost, turn)
    CROSS JOIN me LEFT JOIN django_jobs_queue q ON q.backend = %(backend)s::text AND q.name = l.queue
    WHERE coalesce(q.slots, l.slots) > l.held
      AND NOT coalesce(q.paused AND coalesce(q.paused_until > statement_timestamp(), true), false)
),
seen AS MATERIALIZED (            -- look without a lock: whose jobs could be dealt?
    SELECT l.*, j.id, j.priority
    FROM lane l CROSS JOIN LATERAL (
        SELECT id, priority FROM django_jobs_job
        WHERE state = 'ready' AND backend = %(backend)s::text AND queue = l.queue AND placement = l.placement AND suspect = l.suspect
        ORDER BY -priority, id LIMIT CASE WHEN l.alone THEN 1 ELSE least(l.slots, %(room)s::int) END) j
),
lone AS MATERIALIZED (            -- of suspects and jobs that hold resources at most one a claim: the one whose card would come first
    SELECT id FROM (SELECT *, count(*) FILTER (WHERE NOT alone) OVER (PARTITION BY queue ORDER BY -priority, id) AS ahead FROM seen) r
    WHERE alone AND ahead < slots ORDER BY served + ahead * cost, turn, -priority, id LIMIT 1
),
dealt AS MATERIALIZED (           -- start-time fair queueing: each card of a queue costs it 1 / weight of virtual time
    SELECT queue, placement, suspect, alone, turn, served, cost, served + (rank - 1) * cost AS at
    FROM (SELECT *, row_number() OVER (PARTITION BY queue ORDER BY -priority, id) AS rank
          FROM seen WHERE NOT alone OR id = (SELECT id FROM lone)) r
    WHERE rank <= slots ORDER BY at, turn LIMIT %(room)s::int
),
share AS MATERIALIZED (           -- how many cards each lane got
    SELECT queue, placement, suspect, alone, turn, served, cost, count(*) AS n FROM dealt GROUP BY queue, placement, suspect, alone, turn, served, cost
),
picked AS MATERIALIZED (          -- lock exactly the share of each lane, and no row more: other workers see the rest
    SELECT j.id, s.alone, s.turn, s.served + s.cost * (row_number() OVER (PARTITION BY s.queue ORDER BY -j.priority, j.id) - 1) AS at
    FROM share s CROSS JOIN LATERAL (
        SELECT id, priority FROM django_jobs_job
        WHERE state = 'ready' AND backend = %(backend)s::text AND queue = s.queue AND placement = s.placement AND suspect = s.suspect
        ORDER BY -priority, id LIMIT s.n FOR NO KEY UPDATE SKIP LOCKED) j
),
moved AS (                        -- the attempt is counted here, before anything runs
    UPDATE django_jobs_job j SET state = 'running', attempt = j.attempt + 1, worker_ids = j.worker_ids || %(worker)s::text,
        started_at = coalesce(j.started_at, clock_timestamp()), last_attempted_at = clock_timestamp()
    FROM picked p WHERE j.id = p.id AND j.id = ANY (ARRAY(SELECT id FROM picked))   -- else a guess of many rows makes it scan the whole table
    RETURNING p.at, p.turn, p.alone, j.*
),
leased AS (
    INSERT INTO django_jobs_lease (job_id, worker, expires_at)
    SELECT id, %(worker)s::uuid, clock_timestamp() + %(lease)s::float8 * interval '1 second' FROM moved ORDER BY at, turn
    ON CONFLICT (job_id) DO UPDATE SET id = excluded.id, worker = excluded.worker, expires_at = excluded.expires_at, graced = false   -- made ready by hand while it ran: that run's outcome is void
    RETURNING id, job_id
)
SELECT s.known, s.seen, s.lost, s.clock, s.placements, s.placement_sum,   -- this row is there also when nothing was claimed
       l.id, m.id, m.task, m.queue, m.priority, m.placement, m.suspect, m.alone, m.args, m.kwargs, m.metadata,
       CASE WHEN m.run_after IS NOT NULL THEN least(greatest(m.run_after, timestamptz '0002-01-01'), timestamptz '9998-12-31') END AS run_after,   -- a time that Python cannot hold must not stop the claim
       m.attempt, m.max_attempts, m.life,
       m.backoff, m.backoff_base, m.backoff_cap, m.backoff_jitter, m.retry_on, m.give_up_on, m.keep_dead, m.idempotent,
       m.worker_ids, m.enqueued_at, m.started_at, m.last_attempted_at,
       CASE WHEN m.attempt > 1 THEN ARRAY(   -- what went wrong before, for the run's task result
           SELECT e.data FROM django_jobs_event e WHERE e.job_id = m.id AND e.life = m.life AND e.kind IN ('failed', 'rescued') ORDER BY e.id) END
FROM (SELECT EXISTS (SELECT FROM me) AS known, (SELECT count(*) FROM seen) AS seen, (SELECT max(at) FROM dealt) AS clock,
             (SELECT count(*) FROM django_jobs_placement) AS placements, (SELECT coalesce(sum(id), 0) FROM django_jobs_placement) AS placement_sum,   -- not the largest id: they commit out of order
             (SELECT array_agg(queue) FROM (SELECT queue FROM dealt EXCEPT ALL SELECT queue FROM moved) c) AS lost) s   -- whose cards others took first
LEFT JOIN moved m ON true LEFT JOIN leased l ON l.job_id = m.id ORDER BY m.at, m.turn
