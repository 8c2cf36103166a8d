SELECT kind, name, pid, application, state, seconds, age
FROM (                            -- a snapshot of this database, or a change of any: new snapshots reach back to the oldest one
    SELECT CASE WHEN backend_type = 'walsender' THEN 'standby' ELSE 'session' END AS kind, usename::text AS name, pid, application_name AS application, state,
           extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,   -- null: a session that this role may not look at
           greatest(age(backend_xmin), age(backend_xid))::bigint AS age
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'walsender', 'background worker', 'parallel worker')
      AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL AND (datname = current_database() OR backend_type = 'walsender'))
    UNION ALL
    SELECT 'prepared', gid, NULL, owner::text, 'prepared', extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)::bigint
    FROM pg_prepared_xacts
    UNION ALL
    SELECT 'slot', slot_name::text, active_pid, plugin::text, CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL, age(xmin)::bigint
    FROM pg_replication_slots WHERE xmin IS NOT NULL   -- catalog_xmin holds back system tables alone
) h
ORDER BY seconds DESC NULLS LAST, age DESC LIMIT %(most)s::int
