WITH me AS MATERIALIZED (         -- the claim's own fence: one that was sent before a lost connection carries an older epoch
    SELECT id, set_config('synchronous_commit', 'off', true) AS unflushed   -- a claim lost in a crash is a lost lease: nothing ran that the database remembers
    FROM django_jobs_worker WHERE id = %(worker)s::uuid AND epoch = %(epoch)s::int FOR KEY SHARE
),
lane AS MATERIALIZED (            -- what this worker would take; pause and override are read here, so neither waits for a cache
    SELECT l.queue, l.placement, l.suspect, l.alone, l.served, l.cost, l.turn, l.floor_order, l.floor_id, coalesce(q.slots, l.slots) - l.held AS slots
    FROM unnest(%(queues)s::text[], %(placements)s::int[], %(suspects)s::bool[], %(alones)s::bool[], %(slots)s::int[],
                %(held)s::int[], %(served)s::bigint[], %(costs)s::bigint[], %(turns)s::int[], %(floor_orders)s::int[], %(floor_ids)s::bigint[])
        AS l(queue, placement, suspect, alone, slots, held, served, cost, turn, floor_order, floor_id)
    CROSS JOIN me LEFT JOIN django_jobs_queue q ON q.backend = %(backend)s::text AND q.name = l.queue
    WHERE coalesce(q.slots, l.slots) > l.held
      AND NOT coalesce(q.paused AND coalesce(q.paused_until > statement_timestamp(), true), false)
),
seen AS MATERIALIZED (            -- look without a lock: whose jobs could be dealt?
    SELECT l.*, j.id, j.priority
    FROM lane l CROSS JOIN LATERAL (
        SELECT id, priority FROM django_jobs_job
        WHERE state = 'ready' AND backend = %(backend)s::text AND queue = l.queue AND placement = l.placement AND suspect = l.suspect
          AND (-priority, id) >= (l.floor_order, l.floor_id)   -- a bound of the index: what lies before it is not walked
        ORDER BY -priority, id LIMIT CASE WHEN l.alone THEN 1 ELSE least(l.slots, %(room)s::int) END) j
),
lone AS MATERIALIZED (            -- of suspects and jobs that hold resources at most one a claim: the one whose card would come first
    SELECT id FROM (SELECT *, count(*) FILTER (WHERE NOT alone) OVER (PARTITION BY queue ORDER BY -priority, id) AS ahead FROM seen) r
    WHERE alone AND ahead < slots ORDER BY served + ahead * cost, turn, -priority, id LIMIT 1
),
dealt AS MATERIALIZED (           -- start-time fair queueing: each card of a queue costs it 1 / weight of virtual time
    SELECT queue, placement, suspect, alone, turn, served, cost, floor_order, floor_id, served + (rank - 1) * cost AS at
    FROM (SELECT *, row_number() OVER (PARTITION BY queue ORDER BY -priority, id) AS rank
          FROM seen WHERE NOT alone OR id = (SELECT id FROM lone)) r
    WHERE rank <= slots ORDER BY at, turn LIMIT %(room)s::int
),
share AS MATERIALIZED (           -- how many cards each lane got
    SELECT queue, placement, suspect, alone, turn, served, cost, floor_order, floor_id, count(*) AS n
    FROM dealt GROUP BY queue, placement, suspect, alone, turn, served, cost, floor_order, floor_id
),
picked AS MATERIALIZED (          -- lock exactly the share of each lane, and no row more: other workers see the rest
    SELECT j.*, s.alone, s.turn, s.served + s.cost * (row_number() OVER (PARTITION BY s.queue ORDER BY -j.priority, j.id) - 1) AS at,
           coalesce(j.expires_at <= clock_timestamp() AND j.started_at IS NULL, false) AS expired,
           j.limit_every IS NOT NULL AND coalesce(j.reserved_at < clock_timestamp() - interval '10 seconds', true) AS unrated   -- one that had its time long ago is rated again
    FROM share s CROSS JOIN LATERAL (
        SELECT id, priority, expires_at, started_at, limit_key, limit_size, limit_every, limit_burst, limit_discard, reserved_at FROM django_jobs_job
        WHERE state = 'ready' AND backend = %(backend)s::text AND queue = s.queue AND placement = s.placement AND suspect = s.suspect
          AND (-priority, id) >= (s.floor_order, s.floor_id)
        ORDER BY -priority, id LIMIT s.n FOR NO KEY UPDATE SKIP LOCKED) j
),
asked AS MATERIALIZED (           -- what each key is asked for; the newest job's numbers count
    SELECT limit_key AS key, count(*)::int AS wanted, (count(*) FILTER (WHERE unrated))::int AS unrated,
           (array_agg(limit_size ORDER BY id DESC))[1] AS size, (array_agg(limit_every ORDER BY id DESC))[1] AS every,
           (array_agg(coalesce(limit_burst, 1) ORDER BY id DESC))[1] AS burst, NOT (array_agg(limit_discard ORDER BY id DESC))[1] AS patient
    FROM picked WHERE limit_key IS NOT NULL AND NOT expired GROUP BY limit_key
),
permit AS (                       -- in key order, the only lock that is waited for: then it is the newest version that is seen
    INSERT INTO django_jobs_limit AS l (key, size, every, burst, patient, wanted, unrated, granted, passed, deferred, in_use, next_at)
    SELECT a.key, a.size, a.every, a.burst, a.patient, a.wanted, a.unrated, n.granted, n.passed, n.deferred, n.granted, n.next_at
    FROM asked a CROSS JOIN LATERAL (
        SELECT r.timely + p.passed AS granted, p.passed, d.deferred, t.now + (p.passed + d.deferred) * a.every * interval '1 second' AS next_at
        FROM (SELECT clock_timestamp() AS now) t
        CROSS JOIN LATERAL (SELECT least(a.wanted - a.unrated, coalesce(a.size, a.wanted)) AS timely) r
        CROSS JOIN LATERAL (SELECT least(a.unrated, a.burst, coalesce(a.size, a.wanted) - r.timely) AS passed) p
        CROSS JOIN LATERAL (SELECT CASE WHEN a.patient AND p.passed = a.burst THEN a.unrated - p.passed ELSE 0 END AS deferred) d) n
    ORDER BY a.key
    ON CONFLICT (key) DO UPDATE SET (size, every, burst, patient, wanted, unrated, granted, passed, deferred, in_use, next_at) = (
        SELECT excluded.size, excluded.every, excluded.burst, excluded.patient, excluded.wanted, excluded.unrated, r.timely + p.passed, p.passed, d.deferred,
               l.in_use + r.timely + p.passed, CASE WHEN excluded.unrated = 0 THEN l.next_at ELSE t.base + (p.passed + d.deferred) * excluded.every * interval '1 second' END
        FROM (SELECT now, greatest(now, l.next_at) AS base FROM (SELECT clock_timestamp() AS now OFFSET 0) c) t
        CROSS JOIN LATERAL (SELECT coalesce(l.override, excluded.size) AS size) z
        CROSS JOIN LATERAL (SELECT greatest(coalesce(z.size - l.in_use, excluded.wanted), 0) AS free) f
        CROSS JOIN LATERAL (SELECT least(excluded.wanted - excluded.unrated, f.free) AS timely) r
        CROSS JOIN LATERAL (SELECT CASE WHEN excluded.unrated = 0 THEN 0 ELSE greatest(excluded.burst   -- of the burst so much is open
            - ceil(extract(epoch FROM t.base - t.now)::float8 / excluded.every), 0) END::int AS open) o
        CROSS JOIN LATERAL (SELECT least(excluded.unrated, o.open, f.free - r.timely) AS passed) p
        CROSS JOIN LATERAL (SELECT CASE WHEN excluded.patient AND p.passed = o.open THEN excluded.unrated - p.passed ELSE 0 END AS deferred) d)
    WHERE excluded.unrated > 0 OR coalesce(coalesce(l.override, excluded.size) > l.in_use, true) OR l.size IS DISTINCT FROM excluded.size   -- full: the row is locked, not written, not returned
    RETURNING l.key, l.patient, l.every, l.burst, l.unrated, l.granted, l.passed, l.deferred, l.next_at
),
judged AS MATERIALIZED (          -- who of a key may start, who waits for a place, who has a time reserved
    SELECT r.id, r.at, r.turn, r.alone, s.state, s.reserved_at
    FROM (SELECT p.*, row_number() OVER (PARTITION BY p.limit_key, p.expired, p.unrated ORDER BY p.at, p.turn, -p.priority, p.id) AS nth FROM picked p) r
    LEFT JOIN permit m ON m.key = r.limit_key AND NOT r.expired
    CROSS JOIN LATERAL (SELECT
        CASE WHEN r.expired THEN 'expired' WHEN r.limit_key IS NULL THEN 'running'
             WHEN r.nth <= CASE WHEN r.unrated THEN m.passed ELSE m.granted - m.passed END THEN 'running'
             WHEN NOT coalesce(m.patient, NOT r.limit_discard) THEN 'cancelled' WHEN r.unrated AND m.deferred > 0 THEN 'scheduled' ELSE 'blocked' END AS state,
        CASE WHEN r.unrated AND m.deferred > 0 AND r.nth > m.passed
             THEN m.next_at - (m.unrated - r.nth + m.burst) * m.every * interval '1 second' END AS reserved_at) s
),
moved AS (                        -- the attempt is counted here, before anything runs
    UPDATE django_jobs_job j SET state = g.state,
        attempt = j.attempt + (g.state = 'running')::int,
        worker_ids = CASE WHEN g.state = 'running' THEN j.worker_ids || %(worker)s::text ELSE j.worker_ids END,
        started_at = CASE WHEN g.state = 'running' THEN coalesce(j.started_at, clock_timestamp()) ELSE j.started_at END,
        last_attempted_at = CASE WHEN g.state = 'running' THEN clock_timestamp() ELSE j.last_attempted_at END,
        run_after = CASE WHEN g.state = 'scheduled' THEN g.reserved_at ELSE j.run_after END,
        reserved_at = CASE WHEN g.state = 'scheduled' THEN g.reserved_at WHEN g.state = 'running' AND j.limit_every IS NOT NULL THEN clock_timestamp() ELSE j.reserved_at END,
        finished_at = CASE WHEN g.state IN ('expired', 'cancelled') THEN clock_timestamp() END
    FROM judged g WHERE j.id = g.id AND j.id = ANY (ARRAY(SELECT id FROM judged))   -- else a guess of many rows makes it scan the whole table
    RETURNING g.at, g.turn, g.alone, j.*
),
leased AS (
    INSERT INTO django_jobs_lease (job_id, worker, limit_key, expires_at)
    SELECT id, %(worker)s::uuid, limit_key, clock_timestamp() + %(lease)s::float8 * interval '1 second' FROM moved WHERE state = 'running' ORDER BY at, turn
    ON CONFLICT (job_id) DO UPDATE SET id = excluded.id, worker = excluded.worker, limit_key = excluded.limit_key, expires_at = excluded.expires_at, graced = false   -- made ready by hand while it ran: that run's outcome is void
    RETURNING id, job_id
),
told AS (                         -- the ends that a claim itself brings
    INSERT INTO django_jobs_event (job_id, kind, attempt, life, data)
    SELECT id, state, attempt, life, CASE state WHEN 'cancelled' THEN '{"reason":"limit"}' ELSE '{"reason":"late"}' END
    FROM moved WHERE state IN ('expired', 'cancelled') ORDER BY id
)
SELECT s.known, s.seen, s.lost, s.clock, s.placements, s.placement_sum, s.firsts, s.took,   -- this row is there also when nothing was claimed
       l.id, m.id, m.task, m.queue, m.priority, m.placement, m.suspect, m.alone, m.args, m.kwargs, m.metadata,
       CASE WHEN m.run_after IS NOT NULL THEN least(greatest(m.run_after, timestamptz '0002-01-01'), timestamptz '9998-12-31') END AS run_after,   -- a time that Python cannot hold must not stop the claim
       m.attempt, m.max_attempts, m.life,
       m.backoff, m.backoff_base, m.backoff_cap, m.backoff_jitter, m.retry_on, m.give_up_on, m.keep_dead, m.idempotent, m.timeout, m.trace,
       m.worker_ids, m.enqueued_at, m.started_at, m.last_attempted_at,
       CASE WHEN m.attempt > 1 THEN ARRAY(   -- what went wrong before, for the run's task result
           SELECT e.data FROM django_jobs_event e WHERE e.job_id = m.id AND e.life = m.life AND e.kind IN ('failed', 'rescued') ORDER BY e.id) END,
       m.state
FROM (SELECT EXISTS (SELECT FROM me) AS known, (SELECT count(*) FROM seen) AS seen, (SELECT max(at) FROM dealt) AS clock,
             p.placements, p.placement_sum,
             (SELECT array_agg(queue) FROM (SELECT queue FROM dealt EXCEPT ALL SELECT queue FROM moved) c) AS lost,   -- whose cards others took first
             (SELECT array_agg(ARRAY[turn, placement, suspect::int, -priority, id]) FROM (SELECT DISTINCT ON (turn, placement, suspect) * FROM seen ORDER BY turn, placement, suspect, -priority, id) f) AS firsts,
             CASE WHEN (SELECT count(*) FROM seen) >= 0 THEN extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 END AS took   -- CASE: not before the look is over
      FROM (SELECT count(*) AS placements, coalesce(sum(id), 0) AS placement_sum FROM django_jobs_placement) p) s   -- not the largest id: they commit out of order
LEFT JOIN moved m ON true LEFT JOIN leased l ON l.job_id = m.id ORDER BY m.at, m.turn
