SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(),
       current_setting('autovacuum')::bool AND current_setting('track_counts')::bool AS cleans,
       pg_notification_queue_usage(),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true), '0')::int AS most,   -- that setting is of PostgreSQL 16
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       clock_timestamp()
